"""NCCL cannot start one of its helper threads.

The limit on processes and threads (ulimit -u, the pids cgroup of a container or slice) is used
up: NCCL, torch, OpenBLAS and DataLoader workers start hundreds per host.

The rank fails or stays without its proxy thread, and the others wait for it.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-thread-creation-failed",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} could not start a thread of NCCL",
    when=log(
        r"NCCL WARN .*Thread creation failed",
        r"NCCL WARN .*pthread_create.*Resource temporarily unavailable",
        blames=Blames.SPEAKER,
    ),
    means=(
        "This process hit a limit on threads, so a part of NCCL that the job needs never started."
    ),
    confidence=0.88,
    remedies=(
        "Raise ulimit -u and the pids limit of the container or slice (--pids-limit, TasksMax).",
        "Use fewer DataLoader workers and set OMP_NUM_THREADS.",
    ),
    next_steps=(
        "grep processes /proc/PID/limits; grep -H . /sys/fs/cgroup/pids.*  # in the container",
        "ls /proc/PID/task | wc -l",
    ),
    matches=(
        (
            "node3:99:140 [1] proxy.cc:1700 NCCL WARN Thread creation failed: Resource "
            "temporarily unavailable"
        ),
        (
            "node3:99:140 [1] ras/ras.cc:300 NCCL WARN Call to pthread_create failed: Resource "
            "temporarily unavailable"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource "
            "temporarily unavailable"
        ),
    ),
    outranks=("launcher-exit-code",),
)

"""A launcher reports that a worker process was ended by SIGKILL.

A process killed this way leaves no trace in its own log. The usual sender is the kernel: host
memory is exhausted, or the limit of the cgroup (Slurm --mem, Kubernetes limit) is reached,
often while every rank loads a checkpoint. Rarely it is a scheduler, an administrator, or a
supervisor. The launcher then ends the siblings with SIGTERM; those are no causes.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="launcher-saw-sigkill",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="{who} killed with SIGKILL, most often by the out-of-memory killer",
    when=log(
        r"failed \(exitcode: (?:-9|137)\) local_rank: \d+ \(pid: (?P<pid>\d+)\)",
        r"Child process with PID (?P<pid>\d+) terminated with code -9\.",
        blames=Blames.NAMED,
    ),
    means=(
        "The launcher saw one of its processes end by SIGKILL, which no program sends to itself. "
        "On a training host that is the kernel's out-of-memory killer, or the memory limit of "
        "the job or container."
    ),
    confidence=0.72,
    remedies=(
        (
            "Check the kernel log and the memory limit of the job; ask for more memory, or load "
            "on one rank at a time."
        ),
        "Lower the number of DataLoader workers, and look for growth of host memory over the run.",
    ),
    next_steps=(
        "dmesg -T | grep -i -E 'killed process|out of memory'  # on that host",
        "sacct -j JOB -o MaxRSS,ReqMem,State; cat /sys/fs/cgroup/memory.events",
    ),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        (
            "E1121 02:13:03.595000 17493 torch/distributed/elastic/multiprocessing/api.py:1002] "
            "failed (exitcode: -9) local_rank: 1 (pid: 17506) of binary: /opt/env/bin/python3"
        ),
        (
            "[2023-11-05 09:58:00,044] torch.distributed.elastic.multiprocessing.api: [ERROR] "
            "failed (exitcode: -9) local_rank: 3 (pid: 3867) of binary: /usr/bin/python"
        ),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 137) "
            "local_rank: 0 (pid: 41) of binary: /bin/bash"
        ),
        (
            "[rank: 1] Child process with PID 4711 terminated with code -9. Forcefully "
            "terminating all other processes to avoid zombies"
        ),
    ),
    misses=(
        "failed (exitcode: 1) local_rank: 1 (pid: 17477) of binary: /opt/env/bin/python3",
        "failed (exitcode: -6) local_rank: 1 (pid: 17477) of binary: /opt/env/bin/python3",
    ),
    outranks=(
        "failure-row-sigkill",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)

"""One of the processes of torch.multiprocessing.spawn was ended by SIGKILL.

The number is the index of the process on that host, which is its rank only in a job of one
host. It leaves no trace in its own log. The usual sender is the kernel's out-of-memory killer
or the memory limit of the job.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="spawned-process-sigkill",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title=(
        "Process {rank} of mp.spawn was killed with SIGKILL, most often by the out-of-memory killer"
    ),
    when=log(
        r"ProcessExitedException: process (?P<rank>\d+) terminated with signal SIGKILL",
        blames=Blames.NAMED,
    ),
    means=(
        "The parent saw its process {rank} end by SIGKILL, which no program sends to itself: "
        "mostly the kernel's out-of-memory killer."
    ),
    confidence=0.6,
    remedies=(
        (
            "Check the kernel log and the memory limit of the job; ask for more memory, or load "
            "on one rank at a time."
        ),
    ),
    next_steps=("dmesg -T | grep -i -E 'killed process|out of memory'  # on that host",),
    links=("https://pytorch.org/docs/stable/notes/multiprocessing.html",),
    matches=(
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with "
            "signal SIGKILL"
        ),
        "ProcessExitedException: process 0 terminated with signal SIGKILL",
    ),
    misses=(
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with "
            "signal SIGSEGV"
        ),
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)

"""NCCL's RAS report lists a process that gave no answer.

Under INCOMPLETE it did not answer in time: stopped (SIGSTOP, debugger), hung in the kernel, its
host cut off, or already gone. Under DEAD it has been silent for more than a minute. The RAS
thread answers even while Python hangs, so silence means the whole process.

The node is the bootstrap address, the pid is that of its own pid namespace.
"""

from whyhang.analyzer.match import either, ras
from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ras-process-missing",
    category="rank-died",
    kind=Kind.CAUSE,
    level="program",
    title="{who} does not answer NCCL's health check (process {pid} on {node}, GPU {gpu})",
    when=either(
        ras("dead", "unresponsive"),
        log(
            r"^\s*Process (?P<pid>\d+) on node (?P<node>\S+) managing GPUs? (?P<gpu>[\d,]+)",
            blames=Blames.NAMED,
        ),
    ),
    means=(
        "A process of the job does not answer at all. All ranks that share a communicator with "
        "it wait for it."
    ),
    confidence="likely",
    remedies=(
        (
            "Look at that process: gone, stopped (state T) or stuck in the kernel (state D)? "
            "Then restart the job without its host."
        ),
    ),
    next_steps=(
        "ps -o pid,stat,wchan:30,cmd -p PID; dmesg -T  # on that node",
        "Ask RAS again after a minute: INCOMPLETE that becomes DEAD is gone for good",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "  Process 48213 on node 10.1.0.4 managing GPU 5",
        "  Process 903 on node 10.1.0.4 managing GPUs 0,1",
    ),
    misses=(
        "[2026-07-01 13:07:07] PEER_NEW: Process 48213 on node 10.1.0.4 managing GPU 5",
        "  Rank 5 -- GPU 5 managed by process 48213 on node 10.1.0.4",
    ),
    explains=(
        "launcher-exit-code",
        "missing-rank-in-collective",
        "ras-missing-ranks",
        "ras-rank-left-communicator",
        "stuck-together",
        "waits-for-silent-rank",
    ),
)

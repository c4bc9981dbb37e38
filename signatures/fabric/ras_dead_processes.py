"""NCCL's health network lost a process for good.

The RAS report counts processes that could not be reached for more than a minute, or a rank's
log says that it declares a peer dead. The process that says so is alive; the dead one is named
in the following lines (ras-process-missing) or by its address.

Causes are the kernel (OOM killer), a signal, a node loss or a network cut.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ras-dead-processes",
    category="rank-died",
    kind=Kind.CAUSE,
    title="NCCL considers processes of the job dead",
    when=log(
        r"\d+ job process(?:es are| is) considered dead",
        r"RAS declaring peer \S+ as DEAD",
    ),
    means=(
        "At least one process of the job has been gone for more than a minute, and the others "
        "wait for it."
    ),
    confidence=0.85,
    remedies=(
        (
            "Find the process in the following lines of the report, and what ended it; restart "
            "the job without its host."
        ),
    ),
    next_steps=("dmesg -T  # on that host; and what the scheduler says of it",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "  1 job process is considered dead (unreachable via the RAS network)",
        "  8 job processes are considered dead (unreachable via the RAS network)",
        "node3:99:140 [1] NCCL INFO RAS declaring peer 10.1.0.4<41235> as DEAD; elapsed 60.1s",
    ),
    misses=("  Missing communicator data from 1 job process",),
    outranks=("launcher-exit-code",),
)

"""NCCL's RAS report lists ranks from which a communicator has no data.

In NCCL 2.24 and 2.25 the missing ranks are given by number only. The numbers are those of the
communicator, which are global ranks only for the world communicator, so nobody is blamed by
number here.

A process that does not answer, has not joined yet, or has left is behind it.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ras-missing-ranks",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    title="A communicator lacks ranks {missing} (numbers within that communicator)",
    when=log(
        r"The missing ranks?: (?P<missing>\d+(?:, ?\d+)*)",
    ),
    means=(
        "These members of a communicator gave no data: their processes are gone, silent, or "
        "not in the communicator."
    ),
    confidence=0.6,
    remedies=(
        (
            "Find the processes of these ranks through the communicator's hash in the INIT "
            "lines of the NCCL log."
        ),
    ),
    next_steps=(
        "Ask RAS again with VERBOSE STATUS",
        "grep commId LOG  # in the NCCL INFO logs: the hash",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "  The missing rank: 5",
        "  The missing ranks: 3, 7",
    ),
    misses=("  Missing communicator data from 1 rank",),
    outranks=("launcher-exit-code",),
)

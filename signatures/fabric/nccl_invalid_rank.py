"""A process created a communicator with a rank that its size does not have.

The caller's rank and number of ranks do not fit together: RANK and WORLD_SIZE come from two
different launches, or a group was created with a rank of another group.

NCCL refuses on this process only; the others wait for its check-in.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-invalid-rank",
    category="init-world-size-mismatch",
    kind=Kind.CAUSE,
    title="{who} asked NCCL for a rank outside its world size",
    when=log(
        r"Invalid rank requested : \d+/\d+",
        r"improper usage of ncclCommInitRank",
        blames=Blames.SPEAKER,
    ),
    means=(
        "This process asked for a rank that does not exist in the communicator. It fails at "
        "once, and the ranks that expect it wait."
    ),
    confidence=0.9,
    remedies=(
        "Start all processes from one launcher, so that RANK and WORLD_SIZE agree.",
        "Unset RANK and WORLD_SIZE in job scripts and profiles that set them by hand.",
    ),
    next_steps=("tr '\\0' '\\n' </proc/PID/environ | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK)='",),
    matches=(
        "node7:4711:4802 [0] init.cc:1801 NCCL WARN Invalid rank requested : 8/8",
        (
            "node7:4711:4802 [0] init.cc:1344 NCCL WARN improper usage of ncclCommInitRank: "
            "nId = 2, nranks=1"
        ),
    ),
    misses=(
        (
            "node7:4711:4802 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 7 nranks 8 cudaDev "
            "7 nvmlDev 7 busId db000 commId 0x1 - Init START"
        ),
    ),
    outranks=("launcher-exit-code",),
)

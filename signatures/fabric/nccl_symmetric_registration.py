"""Ranks disagree about a registered (symmetric) memory window.

NCCL_CHECK_MODE=DEBUG_GLOBAL (2.29.7 and later) compares windows, offsets and sizes over all
ranks before a collective runs. A difference would hang or corrupt data without that check.

The rank that is named is the one whose registration differs; it is a number of the
communicator.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-symmetric-registration",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title="{call}: symmetric memory of rank {rank} is registered differently",
    when=log(
        r"Coll (?P<call>\w+) size \d+ symmetric registration check failed on rank (?P<rank>\d+)",
        blames=Blames.NAMED,
    ),
    means=(
        "This rank registered its buffer differently from the others, so the collective cannot "
        "use the window."
    ),
    confidence=0.8,
    remedies=(
        "Register the same window with the same size and offset on all ranks, in the same order.",
    ),
    next_steps=("Compare the registration calls of the ranks; run with NCCL_DEBUG_SUBSYS=REG",),
    matches=(
        (
            "node7:4711:4802 [0] misc/argcheck.cc:144 NCCL WARN Coll AllReduce size 1048576 "
            "symmetric registration check failed on rank 3: offset differs"
        ),
        "Coll AllGather size 4096 symmetric registration check failed on rank 0: not registered",
    ),
    misses=("node7:4711:4802 [0] NCCL INFO NCCL_CHECK_MODE set by environment to DEBUG_GLOBAL",),
    outranks=("launcher-exit-code",),
)

"""NCCL itself noticed that ranks called different collectives (up to 2.4).

Its old check compared the calls of neighbours in the ring and named the rank at which it saw a
difference: one of the two differs, and the line does not say which.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-mismatched-collective",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title="NCCL saw different collective calls at and around rank {near}",
    when=log(
        r"Mismatched collective detected, please check your collective calls at and around rank "
        r"(?P<near>\d+)"
    ),
    means=(
        "Ranks that are neighbours in NCCL's ring called different collectives, or the same with "
        "different sizes. Rank {near} of that communicator or one next to it is where to look; "
        "which of them is wrong the line does not say."
    ),
    confidence=0.85,
    remedies=(
        "Compare what rank {near} and its neighbours called: order, operation, sizes.",
        "Run again with TORCH_DISTRIBUTED_DEBUG=DETAIL: torch then names both calls.",
    ),
    next_steps=(
        "Run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL and compare the calls rank by rank",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#torch-distributed-debug",),
    matches=(
        (
            "node3:120:331 [7] init.cc:1247 NCCL WARN Mismatched collective detected, please check "
            "your collective calls at and around rank 39. You can use NCCL_DEBUG=INFO and "
            "NCCL_DEBUG_SUBSYS=COLL to see the collective logs"
        ),
        (
            "NCCL WARN Mismatched collective detected, please check your collective calls at and "
            "around rank 2"
        ),
    ),
    misses=(
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running "
            "collective: CollectiveFingerPrint(SequenceNumber=1OpType=BARRIER)"
        ),
    ),
    outranks=("launcher-exit-code", "nccl-unhandled-error"),
)

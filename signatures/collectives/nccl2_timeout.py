"""The nccl2 backend (default from torch 2.15) gave up waiting for a collective.

Its lines carry neither operation nor sequence number, so what it waited for must come from
flight-recorder dumps or stacks. The rank in the line is the one that waited, a victim.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl2-timeout",
    category="missing-rank-in-collective",
    kind=Kind.CONSEQUENCE,
    title="A collective did not complete in time (nccl2 backend)",
    when=log(
        (
            r"\[TC\]\[rank=\d+\]\[name=[^\]]*\].*(?:Operation timed out after|Aborting process "
            r"on rank \d+ due to timeout)"
        ),
        r"NCCL operation timed out",
        r"Aborting process on rank \d+ due to (?:timeout - |error - )",
    ),
    means=(
        "The rank that prints this waited in a collective until the limit of the nccl2 backend "
        "and then aborted itself. Whom it waited for is not in this line."
    ),
    confidence=0.5,
    remedies=(
        (
            "Find the rank that did not come, and what it did instead: it prints no such line, "
            "another error, or the oldest last line."
        ),
        (
            "If a rank is only long at work before that call, give the group a longer timeout: "
            "init_process_group(timeout=...)."
        ),
    ),
    next_steps=(
        "Read the flight-recorder dumps of all ranks",
        "TORCH_DIST_USE_NCCL2=0 on the next run gives the older, longer messages",
    ),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:811] [TC][rank=3][name=0] Aborting "
            "process on rank 3 due to timeout - timeout watchdog detected operation timeout"
        ),
        "RuntimeError: Watchdog caught collective operation timeout: NCCL operation timed out",
        "[TC][rank=0][name=0] Operation timed out after 600000 ms",
    ),
    misses=("[TC][rank=0][name=0] Timeout thread starting for rank: 0",),
)

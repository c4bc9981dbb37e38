"""DDP's check of parameter counts reads zeros because its all_gather was aborted.

The check gathers one number per rank. When that first collective times out and is aborted, the
result buffer is still zero, and the check reports a difference that does not exist. The cause
is why the very first collective did not complete: a rank that is missing, or the network or
GPUs below.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ddp-parameter-count-not-received",
    category="missing-rank-in-collective",
    kind=Kind.CONSEQUENCE,
    title="DDP never received the parameter counts of other ranks",
    when=log(
        (
            r"DDP expects same model across all ranks, but Rank \d+ has \d+ params, while rank "
            r"\d+ has inconsistent 0 params"
        ),
    ),
    means=(
        "The exchange of parameter counts at the start of DDP did not complete, so the count of "
        "the other rank is still 0. It is the aborted collective that shows here, no difference "
        "between models."
    ),
    confidence=0.7,
    next_steps=(
        "Look at why the first collective of the group timed out, not at the model",
        "NCCL_DEBUG=INFO on the next run shows whether communicator and channels came up",
    ),
    links=(
        "https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    matches=(
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 2 has 148 params, "
            "while rank 0 has inconsistent 0 params."
        ),
        (
            "DDP expects same model across all ranks, but Rank 1 has 35 params, while rank 0 has "
            "inconsistent 0 params."
        ),
    ),
    misses=(
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 2 params, "
            "while rank 1 has inconsistent 4 params."
        ),
    ),
)

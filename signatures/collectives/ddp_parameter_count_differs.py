"""DistributedDataParallel finds that ranks built models with different parameter counts.

The model depends on the rank: another config file, a checkpoint found on some ranks only, a
freeze or a head that is added under a condition. Each rank compares itself with the first rank
that differs, so the message on a healthy rank names the odd one and the message of the odd one
names a healthy rank. A count of 0 for the other rank is no real count (see ddp-parameter-count-
not-received).
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ddp-parameter-count-differs",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title="DDP was given models with different numbers of parameters on different ranks",
    when=log(
        (
            r"DDP expects same model across all ranks, but Rank \d+ has (?P<mine>\d+) params, "
            r"while rank \d+ has inconsistent (?P<other>[1-9]\d*) params"
        ),
    ),
    means=(
        "DistributedDataParallel compares the number of parameters when it is built. They differ "
        "({mine} against {other}), so the ranks would have reduced different gradients."
    ),
    confidence=0.92,
    remedies=(
        (
            "Print the number of parameters on each rank before wrapping; the minority is where "
            "to look."
        ),
        (
            "Build the model from the same configuration on every rank; broadcast the "
            "configuration from rank 0."
        ),
    ),
    next_steps=(
        ("Print sum(p.requires_grad for p in model.parameters()) on every rank, before DDP."),
    ),
    links=(
        "https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    matches=(
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 2 params, "
            "while rank 1 has inconsistent 4 params."
        ),
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 11 has 148 params, "
            "while rank 0 has inconsistent 150 params."
        ),
    ),
    misses=(
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 2 has 148 params, "
            "while rank 0 has inconsistent 0 params."
        ),
    ),
)

"""A rank was told another address or port of the master than the rest.

By its environment, by its own code (``init_method``) or by an old file. It knocks at a door where
nobody listens, or at another job's store, while the others wait for it in init_process_group.
"""

from whyhang.analyzer.match import Kind, Signature, meets_elsewhere

SIGNATURE = Signature(
    id="init-master-differs",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} {has} another master ({theirs}{there}) than the other ranks ({usual})",
    when=meets_elsewhere(),
    means=(
        "All ranks must meet at one MASTER_ADDR and MASTER_PORT. {who} {is} at {theirs}{there}, "
        "the others at {usual}; init_process_group waits on both sides."
    ),
    confidence="certain",
    remedies=(
        "Start every rank with the same MASTER_ADDR and MASTER_PORT, or the same init_method.",
    ),
    next_steps=("tr '\\0' '\\n' < /proc/{pid}/environ | grep MASTER  # of each rank",),
    explains=(
        "init-missing-rank",
        "init-not-connected",
        "init-master-refuses",
        "init-master-no-answer",
        "missing-rank-in-collective",
        "stuck-together",
    ),
)

"""One rank was given another master address or port than the rest.

It knocks at a door where nobody listens, or at another job's store, while the others wait for
it in init_process_group.
"""

from whyhang.analyzer.match import Kind, Signature, differs

SIGNATURE = Signature(
    id="init-master-differs",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    title="{who} {has} another master ({theirs}) than the other ranks ({usual})",
    when=differs("MASTER_ADDR", "MASTER_PORT"),
    means=(
        "All ranks must meet at one MASTER_ADDR and MASTER_PORT. {who} {is} at {theirs}, the "
        "others at {usual}; init_process_group waits on both sides."
    ),
    confidence=0.95,
    remedies=("Start every rank with the same MASTER_ADDR and MASTER_PORT.",),
    next_steps=("tr '\\0' '\\n' < /proc/{pid}/environ | grep MASTER  # of each rank",),
    outranks=("init-missing-rank", "missing-rank-in-collective", "stuck-together"),
)

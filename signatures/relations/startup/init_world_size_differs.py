"""The ranks were started with different world sizes.

The store's owner waits for as many ranks as its own WORLD_SIZE says; a rank with a larger one
waits for ranks that do not exist, one with a smaller one goes on too early.
"""

from whyhang.analyzer.match import Kind, Signature, differs

SIGNATURE = Signature(
    id="init-world-size-differs",
    category="init-world-size-mismatch",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} {has} another world size ({theirs}) than the other ranks ({usual})",
    when=differs("WORLD_SIZE"),
    means="{who} {has} {theirs}, the others {usual}; they wait for different numbers of ranks.",
    confidence="certain",
    remedies=("Start every rank with the same WORLD_SIZE.",),
    next_steps=("tr '\\0' '\\n' < /proc/{pid}/environ | grep WORLD_SIZE  # of each rank",),
    explains=(
        "init-joins-differ",
        "init-missing-rank",
        "rank-died",
        "missing-rank-in-collective",
        "stuck-together",
    ),
)

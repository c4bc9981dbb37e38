"""Ranks wait for each other in different operations of the same group.

Rank 3 calls broadcast where the others call all_reduce, or all call the same operation with
another shape or dtype. Nobody is missing, and still nobody can meet. The fewest are where to
look first; if the sides are equal, nobody is blamed. Several operations at once are normal
where groups are nested (tensor, data and pipeline parallel), so only two sides count.
"""

from whyhang.analyzer.match import Kind, Signature, WaitKind, mismatch

SIGNATURE = Signature(
    id="collective-mismatch",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="The ranks {differ}: {sides}",
    when=mismatch(WaitKind.COLLECTIVE, WaitKind.BACKWARD, WaitKind.CUDA_SYNC),
    means=("All wait for each other and cannot meet, for they {differ}: {sides}."),
    confidence="strong",
    remedies=(
        "Compare the two places in the code: which condition sends the ranks different ways?",
        (
            "Make every rank of a group call the same collectives in the same order with the same "
            "shapes and dtypes."
        ),
    ),
    next_steps=(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run raises at the first mismatch.",
        "TORCH_FR_BUFFER_SIZE=2000 on the next run records what each rank called.",
    ),
    links=(
        "https://pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications",
    ),
    explains=("fingerprint-mismatch",),
)

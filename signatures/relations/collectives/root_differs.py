"""Ranks are in the same broadcast, but do not mean the same sender.

``dist.broadcast(x, src=best)`` where each rank found another best one; a checkpoint that only
some ranks saw. The operation, the group and the place in the code agree, the root does not, and
everyone waits for a rank that waits itself. The same holds for scatter, gather and reduce.
"""

from whyhang.analyzer.match import Kind, Signature, roots_differ

SIGNATURE = Signature(
    id="root-differs",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="The ranks mean different ranks in the same call: {sides}",
    when=roots_differ(),
    means=(
        "These ranks stand in one call{at}, but not for the same root: {sides}. Whoever is taken "
        "for the sender waits for another one."
    ),
    confidence="strong",
    remedies=(
        "Agree on the root before the call: compute it on one rank and broadcast it from rank 0.",
    ),
    next_steps=("py-spy dump --locals --pid {pid}  # src or dst of torch's own frame",),
    explains=("stuck-together", "collective-mismatch", "groups-crossed"),
)

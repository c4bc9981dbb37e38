"""Two groups are entered in opposite order by ranks that are in both.

Rank 0 starts a collective on group A and then one on B, rank 1 the other way round. Each
waits for the other and no rank is behind: a cycle without a root. With asynchronous calls the
stacks show only a wait() or a synchronize, and the recorder shows the order.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict


def when(case: Case) -> Iterable[Hit]:
    return queries.recorded(case, Verdict.CROSS_GROUP)


SIGNATURE = Signature(
    id="cross-group-deadlock",
    category="cross-group-deadlock",
    level="program",
    title="{says}",
    when=when,
    means=("{says}. No rank is late: each waits in one group for a rank that waits in the other."),
    confidence="strong",
    remedies=(
        "Enter the groups in one order on every rank.",
        "On NCCL, NCCL_LAUNCH_ORDER_IMPLICIT=1 (2.26 and newer) orders launches of one device.",
    ),
    next_steps=("Compare the two source lines above: which condition turns the order round?",),
)

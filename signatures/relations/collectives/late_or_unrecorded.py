"""Several ranks have not come to a collective, and may wait for each other out of sight.

Over gloo the flight recorder leaves sends and receives out. Where a job makes some, a rank that
has not joined a collective may just as well stand in a receive, waiting for another late one.
Their stacks tell which of them waits for nobody.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict


def when(case: Case) -> Iterable[Hit]:
    return queries.recorded(case, Verdict.LATE_OR_UNRECORDED)


SIGNATURE = Signature(
    id="late-or-unrecorded",
    category="missing-rank-in-collective",
    level="wait",
    title="{says}",
    when=when,
    means="{says}. The one of them that waits for no other is the cause.",
    confidence="likely",
    remedies=("Look at the stacks of the late ranks: which of them stands in no send or receive?",),
    next_steps=("whyhang PID  # any process of the job, while it hangs: takes all stacks",),
)

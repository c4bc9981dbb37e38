"""Where ranks run by a hostfile: launchers fill the slots of one host after the other.

Only where the job has as many ranks as the file has slots, and nothing tells other places.
"""

from collections.abc import Sequence

from whyhang.analyzer.facts import Fact, LaunchPlan, ProcessRank, Trust, Who
from whyhang.analyzer.job.world import size_in


def with_hosts_of_slots(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add the host of each rank, by the one hostfile of the job."""
    plans = [fact for fact in facts if isinstance(fact, LaunchPlan) and fact.placed != ()]
    placed = plans[0].placed if len({plan.placed for plan in plans}) == 1 else None
    if placed is None or len(placed) != size_in(facts):
        return facts
    if any(isinstance(fact, ProcessRank) and fact.who.host is not None for fact in facts):
        return facts
    return [
        *facts,
        *(
            ProcessRank(rank=rank, who=Who(host=host, trust=Trust.INFERRED), source=plans[0].source)
            for rank, host in enumerate(placed)
        ),
    ]

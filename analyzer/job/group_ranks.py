"""Ranks within groups: which global rank "TP3" is, where nothing else numbers the processes.

Programs that serve models label their processes by place in a group ("TP3", "DP0 TP1"). How the
groups lie in the job differs from program to program, so such a number is a global rank only where
all processes count along one group, without a hole, and nothing speaks of a larger job.
"""

from collections.abc import Sequence

from whyhang.analyzer.facts import (
    Fact,
    LogLine,
    Process,
    StackDump,
    Statement,
    Track,
    Trust,
    replace,
)
from whyhang.analyzer.job.local_ranks import widest
from whyhang.analyzer.job.records import GROUP_RANK
from whyhang.analyzer.job.world import size_in


def with_group_ranks(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the global rank of facts whose label counts along the only group there is."""
    places: dict[str, tuple[str, int]] = {}
    hosts: set[str] = set()
    for fact in facts:
        who = getattr(fact, "who", None)
        if who is None or not isinstance(fact, StackDump | Track | LogLine | Process):
            continue
        if who.rank is not None:
            return facts
        if who.label is not None and GROUP_RANK.match(who.label):
            place = GROUP_RANK.fullmatch(who.label)
            if place is None:  # a place in two groups
                return facts
            places[who.label] = (place[1], int(place[2]))
            hosts |= {who.host} - {None}
    numbers = sorted(number for _, number in places.values())
    if len(numbers) < 2 or numbers != list(range(len(numbers))) or len(hosts) > 1:
        return facts
    size = size_in(facts)
    if size not in {None, len(numbers)} or widest(facts) > len(numbers):
        return facts
    return [
        replace(fact, who=replace(fact.who, rank=places[fact.who.label][1], trust=Trust.INFERRED))
        if isinstance(fact, StackDump | Track | LogLine | Process | Statement)
        and fact.who.label in places
        else fact
        for fact in facts
    ]

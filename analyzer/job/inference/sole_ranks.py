"""Whose a line is of which only the host or the pod is known, where one rank runs in each."""

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.facts import (
    Exit,
    Fact,
    LastLine,
    LogLine,
    LogTail,
    ProcessRank,
    Track,
    Trust,
    replace,
)


def with_sole_ranks(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the rank of facts that name a host, where ranks have said that each has its own."""
    ranks: dict[str, set[int]] = defaultdict(set)
    pids: dict[str, set[int]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, ProcessRank) and fact.who.host is not None:
            ranks[fact.who.host].add(fact.rank)
            if fact.who.pid is not None:
                pids[fact.who.host].add(fact.who.pid)
    alone = {host: next(iter(own)) for host, own in ranks.items() if len(own) == 1}
    if len(alone) < 2 or len(alone) < len(ranks) or len(set(alone.values())) < len(alone):
        return facts
    return [
        replace(fact, who=replace(fact.who, rank=alone[fact.who.host], trust=Trust.INFERRED))
        if isinstance(fact, LogLine | LogTail | LastLine | Exit | Track)
        and fact.who.rank is None
        and fact.who.local_rank in {None, 0}
        and fact.who.host in alone
        and (fact.who.pid is None or pids[fact.who.host] <= {fact.who.pid})  # not its launcher
        else fact
        for fact in facts
    ]

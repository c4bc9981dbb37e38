"""Whose a line or an end is of which only the pid is known, where that is known to be a rank.

A launcher's output tells how its processes ended, the ranks' own files which process they were.
"""

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.facts import (
    Exit,
    Fact,
    LastLine,
    LogLine,
    LogTail,
    ProcessRank,
    StackDump,
    Trust,
    replace,
)


def with_ranks_of_pids(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the rank of facts that name a process, unless two ranks or hosts have its pid."""
    known: dict[int, set[tuple[int, str | None]]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, ProcessRank) and fact.who.pid is not None:
            known[fact.who.pid].add((fact.rank, fact.who.host))
        elif (
            isinstance(fact, LogLine | LogTail | LastLine)
            and fact.who.trust >= Trust.PREFIX
            and fact.who.pid is not None
            and fact.who.rank is not None
        ):  # its label says both
            known[fact.who.pid].add((fact.who.rank, fact.who.host))
    if not known:
        return facts
    return [
        replace(fact, who=replace(fact.who, rank=rank, trust=Trust.NCCL_INIT))
        if isinstance(fact, Exit | LogLine | LogTail | LastLine | StackDump)
        and fact.who.rank is None
        and fact.who.pid is not None
        and (rank := _rank_of(known.get(fact.who.pid, set()), fact.who.host)) is not None
        else fact
        for fact in facts
    ]


def _rank_of(places: set[tuple[int, str | None]], host: str | None) -> int | None:
    if len({rank for rank, _ in places}) != 1 or len(places) > 1:
        return None
    ((rank, theirs),) = places
    return rank if host is None or theirs is None or host == theirs else None

"""Ranks that cannot be: damaged lines and files give numbers beyond those of any job."""

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from whyhang.analyzer.facts import (
    MAX_RANKS,
    Fact,
    Gap,
    ProcessRank,
    Source,
    Trust,
    Who,
    WorldSize,
    counted,
    replace,
)


def plausible(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Return the facts without the ranks and world sizes that no job has, and a gap that says so.

    What such a fact says besides is kept: it is then of a rank that nobody knows.
    """
    return list(_plausible(facts))


def _plausible(facts: Sequence[Fact]) -> Iterator[Fact]:
    dropped: list[Source] = []
    for fact in facts:
        if _is_beyond(fact):
            dropped.append(fact.source)
            continue
        who: Who | None = getattr(fact, "who", None)
        if who is None or who.rank is None or 0 <= who.rank < MAX_RANKS:
            yield fact
            continue
        source: Source | None = getattr(fact, "source", None)
        if source is not None:
            dropped.append(source)
        yield replace(fact, who=replace(who, rank=None, trust=Trust.NONE))
    if dropped:
        yield Gap(
            what=f"Taking the ranks in {dropped[0].file} as they stand",
            why=f"{counted(len(dropped), 'number')} larger than any job has ranks ({MAX_RANKS})",
            cost="whom these lines are about is not known",
            source=dropped[0],
        )


def _is_beyond(fact: Fact) -> TypeGuard[WorldSize | ProcessRank]:
    return (isinstance(fact, WorldSize) and fact.size >= MAX_RANKS) or (
        isinstance(fact, ProcessRank) and fact.rank >= MAX_RANKS
    )

"""Which ranks are not believed: those that cannot be, and numbers of pods that nothing confirms."""

import re
from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import (
    MAX_RANKS,
    Fact,
    Gap,
    LastLine,
    LogTail,
    ProcessRank,
    Source,
    Trust,
    Who,
    WorldSize,
    counted,
    replace,
)
from whyhang.analyzer.job.inference.whose import AboutOne, ranked
from whyhang.analyzer.job.world import size_in

_WORKER = re.compile(r"(?i)worker[-_. ]?0*(?P<rank>\d+)$")


def plausible(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield the facts without the ranks and world sizes that no job has, and a gap that says so.

    Damaged lines and files give such numbers. What such a fact says besides is kept: it is then of
    a rank that nobody knows.
    """
    dropped: list[Source] = []
    for fact in facts:
        if (isinstance(fact, WorldSize) and fact.size >= MAX_RANKS) or (
            isinstance(fact, ProcessRank) and fact.rank >= MAX_RANKS
        ):
            dropped.append(fact.source)
        elif isinstance(fact, AboutOne) and not 0 <= (fact.who.rank or 0) < MAX_RANKS:
            dropped.append(fact.source)
            yield ranked(fact, None, Trust.NONE)
        else:
            yield fact
    if dropped:
        yield Gap(
            what=f"Taking the ranks in {dropped[0].file} as they stand",
            why=f"{counted(len(dropped), 'number')} larger than any job has ranks ({MAX_RANKS})",
            cost="whom these lines are about is not known",
            source=dropped[0],
        )


def without_pids(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Take back ranks that only words tell ("process 7100: …") where these are known as pids.

    Only those that the job does not have by its size, or that lie above all others.
    """
    of_one = [fact for fact in facts if isinstance(fact, AboutOne)]
    pids = {fact.who.pid for fact in of_one if fact.who.pid is not None}
    sure = {rank for fact in of_one if (rank := _rank_of_itself(fact)) is not None}
    told = {fact.who.rank for fact in of_one if fact.who.rank is not None} | sure
    others = told - pids | sure
    if told == others:
        return facts
    least = size_in(facts) or max(others, default=len(told) - 1) + 1
    wrong = {rank for rank in told - others if rank >= least}
    return [
        ranked(fact, None, Trust.NONE)
        if isinstance(fact, AboutOne) and fact.who.rank in wrong
        else fact
        for fact in facts
    ]


def _rank_of_itself(fact: AboutOne) -> int | None:
    """Return the rank that a process or its file tells, and not the words of a line alone."""
    if isinstance(fact, ProcessRank):
        return fact.rank
    trust = fact.who.trust
    if isinstance(fact, LogTail | LastLine):  # whose numbers all count as said
        return fact.who.rank if trust is Trust.FILE_NAME or trust > Trust.PREFIX else None
    return fact.who.rank if trust > Trust.INFERRED else None


def with_numbers_of_pods(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Take back the ranks that only the numbers of pods ("worker-3.log") tell, if nothing does.

    A pod may hold one rank, eight, or none, and a master beside it may be rank 0. Its number is its
    rank where the job has as many ranks as there are such files, or one of them says so itself.
    """
    of_ranks = [f for f in facts if isinstance(f, AboutOne) and f.who.rank is not None]
    numbers = {fact.source.file: fact.who.rank for fact in of_ranks if _is_guess(fact.who)}
    if not numbers or set(numbers.values()) == set(range(size_in(facts) or 0)):
        return facts
    spoken = {
        (fact.source.file, fact.who.rank)
        for fact in of_ranks
        if fact.source.file in numbers
        and fact.who.trust > Trust.INFERRED
        and not isinstance(fact, LogTail)  # whose numbers all count as said
    }
    if spoken and spoken <= numbers.items():
        return facts

    def unranked(who: Who) -> Who:
        label = who.label or f"worker-{who.rank}"
        return replace(who, rank=None, trust=Trust.NONE, label=label)

    return [
        replace(fact, who=unranked(fact.who))
        if isinstance(fact, AboutOne)
        and fact.who.rank is not None
        and numbers.get(fact.source.file) == fact.who.rank
        and (_is_guess(fact.who) or isinstance(fact, LogTail))
        else fact
        for fact in facts
    ]


def _is_guess(who: Who) -> bool:
    """Return whether a rank is nothing but the number in the name of a pod."""
    match = _WORKER.match(who.label or "")
    return match is not None and who.trust is Trust.INFERRED and who.rank == int(match["rank"])

"""Whether the numbers of pods ("worker-3.log") count ranks: where something says so, not else.

A pod may hold one rank, eight, or none, and a master beside it may be rank 0. Its number is its
rank where the job has as many ranks as there are such files, or one of them says its rank itself.
"""

import re
from collections.abc import Mapping, Sequence

from whyhang.analyzer.facts import (
    Exit,
    Fact,
    LogLine,
    LogTail,
    Process,
    StackDump,
    Statement,
    Track,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.job.world import size_in

_WORKER = re.compile(r"(?i)worker[-_. ]?0*(?P<rank>\d+)$")


def with_numbers_of_pods(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Take back the ranks that only the numbers of pods in names of files tell, if nothing does."""
    ranked = [f for f in facts if isinstance(f, _OF_ONE) and f.who.rank is not None]
    numbers = {fact.source.file: fact.who.rank for fact in ranked if _is_guess(fact.who)}
    if not numbers or set(numbers.values()) == set(range(size_in(facts) or 0)):
        return facts
    spoken = {
        (fact.source.file, fact.who.rank)
        for fact in ranked
        if fact.source.file in numbers
        and fact.who.trust > Trust.INFERRED
        and not isinstance(fact, LogTail)  # whose numbers all count as said
    }
    if spoken and spoken <= numbers.items():
        return facts
    return [_unnumbered(fact, numbers) for fact in facts]


_OF_ONE = Process | StackDump | Track | LogLine | Exit | Statement


def _is_guess(who: Who) -> bool:
    """Return whether a rank is nothing but the number in the name of a pod."""
    match = _WORKER.match(who.label or "")
    return match is not None and who.trust is Trust.INFERRED and who.rank == int(match["rank"])


def _unnumbered(fact: Fact, numbers: Mapping[str, int | None]) -> Fact:
    if not isinstance(fact, _OF_ONE) or fact.source.file not in numbers:
        return fact
    number = numbers[fact.source.file]
    if fact.who.rank != number or not (_is_guess(fact.who) or isinstance(fact, LogTail)):
        return fact
    label = fact.who.label or f"worker-{number}"
    return replace(fact, who=replace(fact.who, rank=None, trust=Trust.NONE, label=label))

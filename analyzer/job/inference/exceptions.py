"""Exceptions that ranks raised for others' sake, taken for stacks: there they stood until then."""

from collections.abc import Sequence

from whyhang.analyzer.facts import Fact, LogLine, SignOfLife, StackDump, Thread, Who
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK


def with_stacks_of_exceptions(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add a stack of each process that a log shows to have raised because of others.

    Where it has one of a tool, that tells; of several exceptions, the first. Who prints steps after
    it has gone on.
    """
    lines = [fact for fact in facts if isinstance(fact, LogLine) and fact.raised]
    if not lines:
        return facts
    seen = {(_named(f.who), f.source.file) for f in facts if isinstance(f, StackDump)}
    signs = {fact.source.file: fact for fact in facts if isinstance(fact, SignOfLife)}
    stacks = []
    for line in lines:
        if line.raised is None or not line.raised.stood:
            continue
        key = (_named(line.who), line.source.file)
        sign = signs.get(line.source.file)
        if any(key[0]) and key not in seen and not (sign and _went_on(line, sign)):
            seen.add(key)
            thread = Thread(frames=line.raised.stood, name="MainThread", line=line.source.line)
            stacks.append(
                StackDump(
                    who=line.who,
                    tool=EXCEPTION_STACK,
                    threads=(thread,),
                    source=line.source,
                    taken_at=line.time,
                    main_only=True,
                )
            )
    return [*facts, *stacks]


def _went_on(line: LogLine, sign: SignOfLife) -> bool:
    """Return whether this sign of life may be of who raised, and stands below."""
    of_one = {line.who.rank, sign.who.rank}, {line.who.local_rank, sign.who.local_rank}
    same = all(len(numbers - {None}) < 2 for numbers in of_one)
    return same and (line.source.line or 0) < (sign.source.line or 0)


def _named(who: Who) -> tuple[object, ...]:
    """Return what tells a process from others; that of nobody is all empty."""
    return (who.label, who.pid, None if who.rank is None else (who.rank,))

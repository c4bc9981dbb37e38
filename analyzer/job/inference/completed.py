"""What completes facts once their ranks are known: joined tails, stacks of exceptions, peers."""

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.facts import (
    Fact,
    LogLine,
    LogTail,
    Outlook,
    SignOfLife,
    StackDump,
    Thread,
    Track,
    Who,
    replace,
)
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.job.world import size_in


def with_joined_tails(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Join the tails of a log that turned out to be of one rank.

    A launcher puts a local rank before every line, and the program names its own rank in some of
    them. Once both are known to be one rank, its last line is the later of the two.
    """
    tails: dict[tuple[int, str], list[LogTail]] = defaultdict(list)
    for fact in facts:
        if isinstance(fact, LogTail) and fact.who.rank is not None:
            tails[fact.who.rank, fact.source.file].append(fact)
    several = {id(part): parts for parts in tails.values() if len(parts) > 1 for part in parts}
    return [
        _joined(several[id(fact)]) if id(fact) in several else fact
        for fact in facts
        if id(fact) not in several or fact is several[id(fact)][0]
    ]


def _joined(parts: Sequence[LogTail]) -> LogTail:
    """Return one tail with the lines of all; what the latest sign shows is its outlook."""
    last = max(parts, key=lambda part: part.lines[-1].number)
    lines = tuple(sorted((x for part in parts for x in part.lines), key=lambda line: line.number))
    tell = [part for part in parts if part.outlook is not Outlook.UNKNOWN] or [last]
    shows = max(tell, key=lambda part: part.lines[part.decisive].number)
    return replace(
        last,
        who=max((part.who for part in parts), key=lambda who: who.trust),
        lines=lines,
        outlook=shows.outlook,
        decisive=lines.index(shows.lines[shows.decisive]),
        whole=all(part.whole for part in parts),
        trouble=next((part.trouble for part in parts if part.trouble), None),
    )


def with_stacks_of_exceptions(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add a stack of each process that a log shows to have raised because of others.

    There it stood until then. Where it has a stack of a tool, that tells; of several exceptions,
    the first. Who prints steps after it has gone on.
    """
    seen = {(_named(f.who), f.source.file) for f in facts if isinstance(f, StackDump)}
    signs = {fact.source.file: fact for fact in facts if isinstance(fact, SignOfLife)}
    stacks = []
    for line in facts:
        if not isinstance(line, LogLine) or line.raised is None or not line.raised.stood:
            continue
        key = (_named(line.who), line.source.file)
        sign = signs.get(line.source.file)
        if any(key[0]) and key not in seen and not (sign and _went_on(line, sign)):
            seen.add(key)
            thread = Thread(frames=line.raised.stood, name="MainThread", line=line.source.line)
            stack = StackDump(
                who=line.who,
                tool=EXCEPTION_STACK,
                threads=(thread,),
                source=line.source,
                taken_at=line.time,
                main_only=True,
            )
            stacks.append(stack)
    return [*facts, *stacks]


def _went_on(line: LogLine, sign: SignOfLife) -> bool:
    """Return whether this sign of life may be of who raised, and stands below."""
    of_one = {line.who.rank, sign.who.rank}, {line.who.local_rank, sign.who.local_rank}
    same = all(len(numbers - {None}) < 2 for numbers in of_one)
    return same and (line.source.line or 0) < (sign.source.line or 0)


def _named(who: Who) -> tuple[object, ...]:
    """Return what tells a process from others; that of nobody is all empty."""
    return (who.label, who.pid, None if who.rank is None else (who.rank,))


def with_peers_of_two(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the other rank as the peer of sends and receives that name none, in a job of two."""
    if size_in(facts) != 2:
        return facts

    def named(track: Track) -> Track:
        peer = 1 - (track.who.rank or 0)
        calls = (replace(c, peer=peer) if c.p2p and c.peer is None else c for c in track.calls)
        return replace(track, calls=tuple(calls))

    return [named(f) if isinstance(f, Track) and f.who.rank in {0, 1} else f for f in facts]

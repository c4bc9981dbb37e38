"""One tail for each rank and file: lines that two labels give to one rank belong together.

A launcher puts a local rank before every line, and the program names its own rank in some of
them. Once both are known to be one rank, its last line is the later of the two.
"""

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.facts import Fact, LogTail, Outlook, replace


def with_joined_tails(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Join the tails of a log that turned out to be of one rank."""
    tails: dict[tuple[int, str], list[LogTail]] = defaultdict(list)
    for fact in facts:
        if isinstance(fact, LogTail) and fact.who.rank is not None:
            tails[fact.who.rank, fact.source.file].append(fact)
    several = {id(part): parts for parts in tails.values() if len(parts) > 1 for part in parts}
    if not several:
        return facts
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
    decisive = lines.index(shows.lines[shows.decisive])
    return replace(
        last,
        who=max((part.who for part in parts), key=lambda who: who.trust),
        lines=lines,
        outlook=shows.outlook,
        decisive=decisive,
        whole=all(part.whole for part in parts),
        trouble=next((part.trouble for part in parts if part.trouble), None),
    )

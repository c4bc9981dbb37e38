"""Whose a log is that names no rank, where the logs beside it do, and a number in their names.

``node0_local0.log`` to ``node0_local3.log``: three of them hold lines of ranks 0, 1 and 3, so the
fourth is that of rank 2. Mostly it is the rank that says nothing of interest.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import Fact, LastLine, LogLine, LogTail, StackDump, Trust, replace

LEAST = 2
"""Files whose names and lines must agree."""

_NUMBER = re.compile(r"(?<!\d)\d{1,5}(?!\d)")


def with_ranks_of_numbered_files(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the rank of facts in files that tell none, by the numbers in their names."""
    speak: dict[str, set[int | None]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, LogLine | LogTail | LastLine | StackDump):
            speak[fact.source.file].add(fact.who.rank)
    silent = {file for file, ranks in speak.items() if ranks == {None}}
    known = {
        file: next(iter(own)) for file, ranks in speak.items() if len(own := ranks - {None}) == 1
    }
    if not silent or len(known) < LEAST:
        return facts
    offsets: dict[str, list[int]] = defaultdict(list)
    for file, rank in known.items():
        for shape, number in _shapes(file):
            offsets[shape].append((rank or 0) - number)
    ranks = {
        file: number + offsets[shape][0]
        for file in silent
        for shape, number in _shapes(file)
        if len(offsets.get(shape, ())) >= LEAST and len(set(offsets[shape])) == 1
    }
    counts = Counter([*known.values(), *ranks.values()])
    ranks = {file: rank for file, rank in ranks.items() if rank >= 0 and counts[rank] == 1}
    return [
        replace(fact, who=replace(fact.who, rank=ranks[fact.source.file], trust=Trust.INFERRED))
        if isinstance(fact, LogLine | LogTail | LastLine | StackDump) and fact.source.file in ranks
        else fact
        for fact in facts
    ]


def _shapes(file: str) -> Iterator[tuple[str, int]]:
    """Yield each number in a path, with the path without it."""
    for match in _NUMBER.finditer(file):
        yield f"{file[: match.start()]}#{file[match.end() :]}", int(match[0])

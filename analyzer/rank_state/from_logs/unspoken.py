"""Ranks that print nothing where all others print the same: who is absent from a list.

A job whose ranks write into one log says who has come to a line: all whose number stands before it.
A number that is missing among them, of as many as the highest tells, has not come there. Nothing is
concluded of a rank whose lines may stand elsewhere: in a file of its own, or without a label, as
rank 0 often prints for all.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from whyhang.analyzer.facts import LogTail, Outlook, OwnLine, Record, Source, grouped

LEAST = 3  # ranks that speak
LEAST_BY_HAND = 2  # where somebody at the terminal gave up waiting for a third
FEW = 4  # one rank in so many may be absent, or one
MOST = 64  # ranks of a list

_BY_HAND = re.compile(r"\^C|Ctrl-C|killing job")
"""Somebody stopped it, who saw that nothing more came."""


class Unspoken(Record):
    """The ranks that a list of others lacks: their ``line``, alike on all ``others``."""

    ranks: tuple[int, ...]
    others: tuple[int, ...]
    line: OwnLine
    source: Source


def unspoken(
    tails: Iterable[LogTail], world_size: int | None, sizes: Mapping[str, int]
) -> Unspoken | None:
    """Return the ranks that are absent from the lines that all other ranks print in one log.

    ``sizes`` are the numbers of ranks that logs tell, by file.
    """
    by_file = grouped(tails, lambda tail: tail.source.file)
    stopped = [own for own in by_file.values() if any(map(_is_by_hand, own))]
    if len(stopped or by_file) != 1:
        return None
    (in_one,) = stopped or by_file.values()
    spoken = {tail.who.rank: tail for tail in in_one if tail.who.rank is not None and tail.whole}
    others = sorted(rank for rank in spoken if rank is not None)
    least = LEAST_BY_HAND if stopped else LEAST
    troubled = any(tail.trouble and not _is_by_hand(tail) for tail in in_one)
    if not least <= len(others) <= MOST or troubled:
        return None
    if any(tail.outlook in {Outlook.STEPS, Outlook.ENDED} for tail in in_one):
        return None  # they have met it there: its output is elsewhere
    size = sizes.get(in_one[0].source.file, world_size or 0)
    everyone = range(max(size, others[-1] + 1))
    absent = tuple(rank for rank in everyone if rank not in spoken)
    if not absent or len(absent) > max(1, len(others) // FEW):
        return None
    if 0 in absent and len(spoken) < len(in_one):
        return None  # lines without a label may be its
    templates = Counter(line.template for tail in spoken.values() for line in set(tail.lines[-1:]))
    if max(templates.values()) < len(others) and len(others) >= LEAST:
        return None
    last = spoken[others[-1]]
    return Unspoken(ranks=absent, others=tuple(others), line=last.lines[-1], source=last.source)


def _is_by_hand(tail: LogTail) -> bool:
    return tail.trouble is not None and _BY_HAND.search(tail.trouble.text) is not None

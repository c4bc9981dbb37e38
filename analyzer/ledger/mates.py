"""Who went another way than ranks that run the same program: a vote of its mates.

Of ranks that hold each other up, one has done something that the others did not: left a call
out, made one too many, taken two in another order. Ranks of one role (the same stage, another
replica) make the same calls in the same order over all their groups. So the sequences of two
ranks are laid side by side from a call that they share, and where they part, the one that goes
on as both did a round before is right.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from whyhang.analyzer.ledger.book import Book
from whyhang.analyzer.ledger.routine import (
    Issued,
    Step,
    full_anywhere,
    issued_by,
    plain_anywhere,
)
from whyhang.analyzer.model import Record

MAX_RANKS = 8
MAX_MATES = 6
CONTEXT = 6
"""Calls that must come before a parting as they did a round before it."""

SHORT_CONTEXT = 3
"""As many are enough where two ranks have made the same calls from the first one on."""


class Parting(Record):
    """Where two sequences part: what each did, and what both did a round before (or None)."""

    mine: Hashable
    theirs: Hashable
    usual: Hashable | None


def odd_ones(book: Book, ranks: Sequence[int]) -> tuple[int, ...]:
    """Find those of a few ranks that went another way than their mates; none in doubt.

    Each must stand alone against at least one mate that did as both had done before, and no
    mate may have gone its way. Of the others none may be in the same position.
    """
    if not 2 <= len(ranks) <= MAX_RANKS:
        return ()
    read = _Reading(book)
    for step in (full_anywhere, plain_anywhere):
        odd = {rank for rank in ranks if _odd(read, rank, ranks, step)}
        if odd and 2 * len(odd) <= len(ranks):
            return tuple(sorted(odd))
    return ()


class _Reading:
    """What ranks issued, read once each."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.found: dict[int, list[Issued]] = {}

    def of(self, rank: int) -> list[Issued]:
        if rank not in self.found:
            self.found[rank] = issued_by(self.book, rank)
        return self.found[rank]

    def mates(self, rank: int, first: Iterable[int]) -> list[int]:
        """Choose ranks that share a group with this one: those near it in each of its groups."""
        chosen = [other for other in first if other != rank]
        tables = [t for t in self.book.tables if rank in t.standings and t.space == "torch"]
        for table in sorted(tables, key=lambda table: -len(table.members)):
            others = [r for r, own in table.standings.items() if own.tracks and r != rank]
            chosen += sorted(others, key=lambda other: abs(other - rank))[:MAX_MATES]
        return list(dict.fromkeys(chosen))[: 2 * MAX_MATES]


def _odd(read: _Reading, rank: int, ranks: Sequence[int], step: Step) -> bool:
    against = 0
    for mate in read.mates(rank, ranks):
        parting = _parting(read.of(rank), read.of(mate), step)
        if parting is None:
            continue
        if parting.usual is None or parting.mine == parting.usual:
            continue
        if parting.theirs != parting.usual:
            return False
        against += 1
    return against > 0


def _parting(mine: Sequence[Issued], theirs: Sequence[Issued], step: Step) -> Parting | None:
    """Lay two sequences side by side from their first shared call; None if they do not part."""
    places = {_shared(issued): at for at, issued in enumerate(theirs)}
    start = next(((a, places[key]) for a, issued in enumerate(mine)
                  if (key := _shared(issued)) is not None and key in places), None)  # fmt: skip
    if start is None:
        return None
    left = [step(issued) for issued in mine[start[0] :]]
    right = [step(issued) for issued in theirs[start[1] :]]
    at = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if at is None:
        return None
    return Parting(mine=left[at], theirs=right[at], usual=_usual(left[:at], whole=not any(start)))


def _shared(issued: Issued) -> Hashable | None:
    """Name a call that is the same one on all members of its group."""
    return None if issued.call.p2p else (issued.table, issued.call.seq)


def _usual(before: Sequence[Hashable], *, whole: bool) -> Hashable | None:
    """Say what followed the last calls a round before; None if it differs or there was none."""
    for width in (CONTEXT, SHORT_CONTEXT) if whole else (CONTEXT,):
        context = before[-width:]
        followers = {
            before[end]
            for end in range(width, len(before))
            if before[end - 1] == context[-1] and before[end - width : end] == context
        }
        if followers:
            return followers.pop() if len(followers) == 1 else None
    return None

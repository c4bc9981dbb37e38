"""Who went another way than ranks that run the same program: a vote of its mates.

Of ranks that hold each other up, one has done something that the others did not: left a call
out, made one too many, taken two in another order. Ranks of one role (the same stage, another
replica) make the same calls in the same order over all their groups. So the sequences of two
ranks are laid side by side from a call that they share, and where they part, the one that goes
on as both did a round before is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from whyhang.analyzer.collectives.groups import JobCalls
from whyhang.analyzer.collectives.history import CONTEXT, MIN_ROUNDS, usual_step
from whyhang.analyzer.collectives.routine import (
    Issued,
    Step,
    full_anywhere,
    issued_by,
    plain_anywhere,
)
from whyhang.analyzer.facts import Record, replace

MAX_RANKS = 8
MAX_MATES = 6
ROUNDS = 2
"""How often a shared call must come back before two ranks are known to be of one role."""

SHORT_CONTEXT = 3
"""As many are enough where two ranks have made the same calls from the first one on."""


class Parting(Record):
    """Two sequences side by side: up to which call of one's own they are the same.

    ``mine`` and ``theirs`` is what each did then, ``usual`` what both did in the ``rounds``
    before; all None where they do not part. ``new``: no call like mine came before. ``further``
    is how much later in the other's sequence the same call stands.
    """

    at: int
    mine: Hashable | None = None
    theirs: Hashable | None = None
    usual: Hashable | None = None
    rounds: int = 0
    new: bool = False
    mate: int = -1
    further: int = 0


class Apart(Record):
    """What a rank did where it parted from its mates, and what they did there."""

    rank: int
    own: Issued
    theirs: Issued


def apart(job: JobCalls, ranks: Sequence[int]) -> tuple[Apart, ...]:
    """Find those of a few ranks that went another way than their mates; none in doubt.

    Each must stand against at least one mate that did as both had done before. No mate may
    have gone its way, or not more than kept to a way they had gone many times.
    """
    if not 2 <= len(ranks) <= MAX_RANKS:
        return ()
    read = _Reading(job)
    for step in (full_anywhere, plain_anywhere):
        found = [odd for rank in sorted(set(ranks)) if (odd := _odd(read, rank, ranks, step))]
        if found and 2 * len(found) <= len(ranks):
            return tuple(found)
    return ()


def odd_ones(job: JobCalls, ranks: Sequence[int]) -> tuple[int, ...]:
    """Name those that ``apart`` finds."""
    return tuple(found.rank for found in apart(job, ranks))


class _Reading:
    """What ranks issued, read once each."""

    def __init__(self, job: JobCalls) -> None:
        self.job = job
        self.found: dict[int, list[Issued]] = {}

    def of(self, rank: int) -> list[Issued]:
        if rank not in self.found:
            self.found[rank] = issued_by(self.job, rank)
        return self.found[rank]

    def mates(self, rank: int, first: Iterable[int]) -> list[int]:
        """Choose ranks that share a group with this one: those near it in each of its groups."""
        chosen = [other for other in first if other != rank]
        groups = [t for t in self.job.groups if rank in t.progress and t.space == "torch"]
        for group in sorted(groups, key=lambda group: -len(group.members)):
            others = [r for r, progress in group.progress.items() if progress.tracks and r != rank]
            chosen += sorted(others, key=lambda other: abs(other - rank))[:MAX_MATES]
        return list(dict.fromkeys(chosen))[: 2 * MAX_MATES]


def _odd(read: _Reading, rank: int, ranks: Sequence[int], step: Step) -> Apart | None:
    found = [
        replace(parting, mate=mate)
        for mate in read.mates(rank, ranks)
        if (parting := _parting(read.of(rank), read.of(mate), step)) is not None
    ]
    against = [p for p in found if p.theirs is not None and p.theirs == p.usual != p.mine]
    if not against:
        return None
    first = min(parting.at for parting in against)
    if len(against) == 1 and against[0].new and against[0].rounds < MIN_ROUNDS:
        return None  # it may be the next phase of the program, which the other has missed
    with_me = sum(parting.at > first for parting in found)
    rounds = min(parting.rounds for parting in against)
    if with_me and (len(against) <= with_me or rounds < MIN_ROUNDS):
        return None
    one = next(parting for parting in against if parting.at == first)
    return Apart(
        rank=rank, own=read.of(rank)[one.at], theirs=read.of(one.mate)[one.at + one.further]
    )


def _parting(mine: Sequence[Issued], theirs: Sequence[Issued], step: Step) -> Parting | None:
    """Lay two sequences side by side from their first shared call.

    None if they are not of one role: those make the same calls from one shared call to the
    next of its kind.
    """
    places = {_shared(issued): at for at, issued in enumerate(theirs) if not issued.call.p2p}
    start = next(((a, places[key]) for a, issued in enumerate(mine)
                  if (key := _shared(issued)) is not None and key in places), None)  # fmt: skip
    if start is None:
        return None
    left = [step(issued) for issued in mine[start[0] :]]
    right = [step(issued) for issued in theirs[start[1] :]]
    until = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    length = min(len(left), len(right)) if until is None else until
    kinds = Counter(
        left[n] for n in range(length) if places.get(_shared(mine[start[0] + n])) == start[1] + n
    )
    if not kinds or max(kinds.values()) < ROUNDS:
        return None
    if until is None:
        return Parting(at=start[0] + length)
    widths = (CONTEXT,) if any(start) else (CONTEXT, SHORT_CONTEXT)
    usual, rounds = usual_step(left[:until], widths)
    return Parting(
        at=start[0] + until,
        mine=left[until],
        theirs=right[until],
        usual=usual,
        rounds=rounds,
        new=left[until] not in left[:until],
        further=start[1] - start[0],
    )


def _shared(issued: Issued) -> Hashable | None:
    """Name a call that is the same one on all members of its group."""
    return None if issued.call.p2p else (issued.group, issued.call.seq)

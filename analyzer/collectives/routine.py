"""Which of a few ranks left its routine, where they hold each other up and none is in a minority.

One of them has done something that the others did not: left a call out, made one too many, taken
two in another order. Training programs repeat themselves, so what came after the same calls in
each earlier round is what was to come. Who did something else there has left its routine, unless
it may be the next phase of the program: that ranks of the same role have come to as well.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from whyhang.analyzer.collectives.groups import JobCalls
from whyhang.analyzer.collectives.mismatch import CLEAR, elements, family
from whyhang.analyzer.collectives.pending import IssuedCall, issued
from whyhang.analyzer.facts import Record

MAX_RANKS = 8
"""More ranks than these are not compared."""

MIN_ROUNDS = 5
"""How often a step must have come to be a habit, where no other rank has gone on with it."""

CONTEXTS = (24, 12, 6)
"""Calls that must come before a step as they did in an earlier round, the surest first."""

MAX_NEAR = 12  # other ranks that a rank is compared with
MAX_CALLS = 2000  # of each rank, the latest

Step = Callable[[IssuedCall], Hashable]
_Followers = Mapping[tuple[int, ...], Counter[int]]


class Departure(Record):
    """What a rank did where it left its routine, and what it had done there in earlier rounds.

    ``sure``: what is new may not just be the next phase, which others have not come to.
    """

    rank: int
    own: IssuedCall
    usual: IssuedCall
    sure: bool


def departures(job: JobCalls, ranks: Sequence[int]) -> tuple[Departure, ...]:
    """Find those of a few ranks that left their routine; none if most have, or in doubt."""
    few = sorted(set(ranks))
    if not 2 <= len(few) <= MAX_RANKS:
        return ()
    read: dict[int, list[IssuedCall]] = {}
    for step in (lambda each: (_of_role(each), elements(each.call), each.call.dtypes), _of_role):
        routines = _Routines(job, step, read)
        for width in CONTEXTS:
            left = [one for rank in few if (one := _departure(routines, rank, few, width))]
            if left and 2 * len(left) <= len(few) and all(each.sure for each in left):
                return tuple(left)
    return ()


class _Routines:
    """The calls that ranks issued over all groups, each rank's read once, as numbers of steps."""

    def __init__(self, job: JobCalls, step: Step, read: dict[int, list[IssuedCall]]) -> None:
        self._job = job
        self._step = step
        self._read = read
        self._numbers: dict[Hashable, int] = {}
        self._steps: dict[int, list[int]] = {}
        self._after: dict[tuple[int, int], _Followers] = {}

    def calls(self, rank: int) -> list[IssuedCall]:
        """Return the latest recorded calls of one rank, oldest first."""
        if rank not in self._read:
            calls = [
                issued(group, own, call)
                for group in self._job.groups
                if (own := group.progress.get(rank)) is not None and own.tracks
                for call in own.all_calls()
                if call.order is not None
            ]
            self._read[rank] = sorted(calls, key=lambda each: each.call.order or 0)[-MAX_CALLS:]
        return self._read[rank]

    def steps(self, rank: int) -> list[int]:
        """Return the numbers of the steps that these calls are."""
        if rank not in self._steps:
            steps = (self._step(each) for each in self.calls(rank))
            self._steps[rank] = [self._numbers.setdefault(s, len(self._numbers)) for s in steps]
        return self._steps[rank]

    def after(self, rank: int, width: int) -> _Followers:
        """Return what followed which steps, and how often."""
        if (rank, width) not in self._after:
            after: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
            steps = self.steps(rank)
            for at in range(width, len(steps)):
                after[tuple(steps[at - width : at])][steps[at]] += 1
            self._after[rank, width] = after
        return self._after[rank, width]

    def near(self, rank: int, first: Sequence[int]) -> list[int]:
        """Choose ranks that may be of the same role: those near it in its groups."""
        groups = [g for g in self._job.groups if rank in g.progress and g.space == "torch"]
        others = {r for group in groups for r, own in group.progress.items() if own.tracks}
        nearest = sorted(others.difference(first), key=lambda other: abs(other - rank))
        return [other for other in (*first, *nearest)[:MAX_NEAR] if other != rank]


def _departure(routines: _Routines, rank: int, few: Sequence[int], width: int) -> Departure | None:
    """Find where a rank first did what neither it nor most others did after the same steps."""
    calls, steps = routines.calls(rank), routines.steps(rank)
    breaks = [*_breaks(steps, width)]
    compared = routines.near(rank, few) if breaks else ()
    near = {other: routines.after(other, width) for other in compared}
    for at, usual, rounds in breaks:
        context = tuple(steps[at - width : at])
        others = {other: after[context] for other, after in near.items() if context in after}
        # who did the usual more often has gone on with it
        ahead = sum(after[steps[usual]] > rounds for after in others.values())
        alike = {other for other, after in others.items() if steps[at] in after}
        if alike and (len(alike) * CLEAR >= ahead or alike.intersection(calls[at].members)):
            continue
        kept = any(after.keys() == {steps[usual]} for after in others.values())
        enough = rounds >= MIN_ROUNDS or ahead > (steps[at] not in steps[:at])
        return Departure(rank=rank, own=calls[at], usual=calls[usual], sure=kept and enough)
    return None


def _breaks(steps: Sequence[int], width: int) -> Iterator[tuple[int, int, int]]:
    """Yield where something else followed the same steps than in all rounds before.

    With it the last place where the usual followed, and how often it did.
    """
    seen: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for at in range(width, len(steps)):
        before = seen[tuple(steps[at - width : at])]
        if before and {steps[n] for n in before} == {steps[before[0]]} != {steps[at]}:
            yield at, before[-1], len(before)
        before.append(at)


def _of_role(each: IssuedCall) -> Hashable:
    """Identify a step on any rank of the same role: what, where in the code, with how many."""
    call = each.call
    site = each.site
    place = (site.file, site.line) if site is not None else None
    peer = call.peer - each.rank if call.peer is not None else None
    return (family(call.op), peer, place, len(each.members))

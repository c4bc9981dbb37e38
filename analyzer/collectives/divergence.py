"""Which of a few ranks diverged, where they hold each other up and none is in a minority.

One of them has done something that the others did not: left a call out, made one too many, taken
two in another order. Two ways find it, from all calls that the ranks issued on all groups:

* ``divergences`` compares it with ranks of the same role (the same stage, another replica), which
  make the same calls in the same order. The sequences of two ranks are laid side by side from a
  call that they share; where they differ, the one that goes on as both did a round before is right.
* ``left_routine`` needs no such rank: a program repeats its step, and one of them has gone round
  and round until a certain call and then done something else, while the others still go round.
  What looks new may only be the next phase of the program, so no rank of the same role may ever
  have done the same after the same calls.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from whyhang.analyzer.collectives.groups import JobCalls
from whyhang.analyzer.collectives.mismatch import elements, family
from whyhang.analyzer.collectives.pending import IssuedCall, issued
from whyhang.analyzer.facts import Record

MAX_RANKS = 8
"""More ranks than these are not compared."""

MIN_ROUNDS = 5
"""How often a step must have come to be a habit: what comes every tenth (an evaluation, a
checkpoint) looks new to whoever knows three."""

MAX_NEAR = 6  # ranks of one group that are compared with another
SAME_ROLE = 2  # how often a shared call must come back before two ranks are known to be of one role
CONTEXT = 6  # calls that must come before a step as they did in an earlier round
SHORT_CONTEXT = 3  # as many are enough where two ranks made the same calls from the first one on

CONTROL_CONTEXT = 24  # calls that must be the same before a rank is compared with one that left
MAX_SINCE = 3  # rounds that a rank may have gone on since it left its routine
MAX_CALLS = 2000  # of each rank, the latest

Step = Callable[[IssuedCall], Hashable]


class Divergence(Record):
    """What a rank did where it diverged from ranks of the same role, and what these did there."""

    rank: int
    own: IssuedCall
    usual: IssuedCall


class _Comparison(Record):
    """Two sequences side by side: up to which call of one's own they are the same.

    ``own`` and ``theirs`` is what each did then, ``usual`` what both did in the ``rounds``
    before; all None where they do not differ. ``new``: no call like ``own`` came before.
    ``call`` is that of the other rank.
    """

    at: int
    own: Hashable | None = None
    theirs: Hashable | None = None
    usual: Hashable | None = None
    rounds: int = 0
    new: bool = False
    call: IssuedCall | None = None


class _Routine(Record):
    """How often a rank went round before it left its routine, at its call number ``left``.

    ``left`` is 0 if it did not. ``known``: it had made such a call before.
    """

    left: int = 0
    rounds: int = 0
    known: bool = False


def divergences(job: JobCalls, ranks: Sequence[int]) -> tuple[Divergence, ...]:
    """Find those of a few ranks that diverged from ranks of the same role; none in doubt.

    Each must differ from at least one that did as both had done before. None of the same role may
    have done as it did, or not more than kept to what they had done many times.
    """
    if not 2 <= len(ranks) <= MAX_RANKS:
        return ()
    calls = _Issued(job)
    for step in (_with_contents(_of_role), _of_role):
        diverged = [
            d for rank in sorted(set(ranks)) if (d := _divergence(calls, rank, ranks, step))
        ]
        if diverged and 2 * len(diverged) <= len(ranks):
            return tuple(diverged)
    return ()


def left_routine(job: JobCalls, ranks: Sequence[int]) -> tuple[int, ...]:
    """Find those of a few ranks that left their routine; none unless all others keep theirs."""
    if not 2 <= len(ranks) <= MAX_RANKS:
        return ()
    calls = _Issued(job)
    routines = [_routine([_of_rank(each) for each in calls.by(rank)]) for rank in ranks]
    by_rank = zip(ranks, routines, strict=True)
    left = {rank: routine for rank, routine in by_rank if routine is not None and routine.left}
    others = [rank for rank in ranks if rank not in left]
    if None in routines or 2 * len(left) > len(ranks):
        return ()
    for rank, routine in left.items():
        controls = [other for other in calls.near(rank, others) if other not in left]
        if not _unique(calls, rank, routine, controls):
            return ()
    return tuple(sorted(left))


class _Issued:
    """The calls that ranks issued over all groups, each rank's read once."""

    def __init__(self, job: JobCalls) -> None:
        self._job = job
        self._by: dict[int, list[IssuedCall]] = {}

    def by(self, rank: int) -> list[IssuedCall]:
        """Return the latest recorded calls of one rank, oldest first."""
        if rank not in self._by:
            calls = [
                issued(group, own, call)
                for group in self._job.groups
                if (own := group.progress.get(rank)) is not None and own.tracks
                for call in (*own.collectives().values(), *own.sends_and_receives())
                if call.order is not None
            ]
            calls.sort(key=lambda each: each.call.order or 0)
            self._by[rank] = calls[-MAX_CALLS:]
        return self._by[rank]

    def near(self, rank: int, first: Iterable[int]) -> list[int]:
        """Choose ranks that may be of the same role: those near it in each of its groups."""
        chosen = [other for other in first if other != rank]
        groups = [g for g in self._job.groups if rank in g.progress and g.space == "torch"]
        for group in sorted(groups, key=lambda group: -len(group.members)):
            others = [r for r, progress in group.progress.items() if progress.tracks and r != rank]
            chosen += sorted(others, key=lambda other: abs(other - rank))[:MAX_NEAR]
        return list(dict.fromkeys(chosen))[: 2 * MAX_NEAR]


def _divergence(calls: _Issued, rank: int, ranks: Sequence[int], step: Step) -> Divergence | None:
    compared = [
        comparison
        for other in calls.near(rank, ranks)
        if (comparison := _compare(calls.by(rank), calls.by(other), step)) is not None
    ]
    against = [c for c in compared if c.theirs is not None and c.theirs == c.usual != c.own]
    if not against:
        return None
    if len(against) == 1 and against[0].new and against[0].rounds < MIN_ROUNDS:
        return None  # it may be the next phase of the program, which the other has missed
    first = min(against, key=lambda comparison: comparison.at)
    own = calls.by(rank)[first.at]
    agreeing = sum(comparison.at > first.at for comparison in compared)
    rounds = min(comparison.rounds for comparison in against)
    if agreeing and (len(against) <= agreeing or rounds < MIN_ROUNDS):
        return None
    return Divergence(rank=rank, own=own, usual=first.call or own)


def _compare(
    own: Sequence[IssuedCall], theirs: Sequence[IssuedCall], step: Step
) -> _Comparison | None:
    """Lay two sequences side by side from their first shared call.

    None if they are not of one role: those make the same calls from one shared call to the
    next of its kind.
    """
    places = {key: at for at, each in enumerate(theirs) if (key := _shared(each)) is not None}
    shared = ((at, places.get(_shared(each))) for at, each in enumerate(own))
    start, there = next(((a, b) for a, b in shared if b is not None), (0, None))
    if there is None:
        return None
    left = [step(each) for each in own[start:]]
    right = [step(each) for each in theirs[there:]]
    until = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    length = min(len(left), len(right)) if until is None else until
    kinds = Counter(
        left[n] for n in range(length) if places.get(_shared(own[start + n])) == there + n
    )
    if not kinds or max(kinds.values()) < SAME_ROLE:
        return None
    if until is None:
        return _Comparison(at=start + length)
    usual, rounds = _usual_step(left[:until], short=start == there == 0)
    return _Comparison(
        at=start + until,
        own=left[until],
        theirs=right[until],
        usual=usual,
        rounds=rounds,
        new=left[until] not in left[:until],
        call=theirs[there + until],
    )


def _shared(each: IssuedCall) -> Hashable:
    """Name a call that is the same one on all members of its group."""
    return None if each.call.p2p else (each.index, each.call.seq)


def _usual_step(before: Sequence[Hashable], *, short: bool) -> tuple[Hashable | None, int]:
    """Return what followed the last calls in earlier rounds, and in how many of them.

    None if what followed differs, or there was no such round. ``short``: a shorter context will do.
    """
    for width in (CONTEXT, SHORT_CONTEXT) if short else (CONTEXT,):
        followers = list(_followers(before, before[-width:]))
        if followers:
            return (followers[0], len(followers)) if len(set(followers)) == 1 else (None, 0)
    return None, 0


def _followers(steps: Sequence[Hashable], context: Sequence[Hashable]) -> Iterator[Hashable]:
    """Yield what followed the same steps."""
    width = len(context)
    for at in range(width, len(steps)):
        if steps[at - 1] == context[-1] and steps[at - width : at] == context:
            yield steps[at]


def _routine(steps: list[Hashable]) -> _Routine | None:
    """Find the routine in a sequence: a period, up to the end or to shortly before it."""
    for start in (0, len(steps) // 4, len(steps) // 2):
        tail = steps[start:]
        length, period = _periodic(tail)
        if not period or len(tail) - length > MAX_SINCE * period:
            continue
        if length == len(tail):
            return _Routine()
        if length >= 3 * period:
            at = start + length
            return _Routine(left=at, rounds=length // period, known=steps[at] in steps[:at])
    return None


def _periodic(steps: Sequence[Hashable]) -> tuple[int, int]:
    """Return the length of the longest beginning that repeats itself, and its period."""
    border = [0] * len(steps)
    best = (0, 0)
    for at in range(1, len(steps)):
        width = border[at - 1]
        while width and steps[at] != steps[width]:
            width = border[width - 1]
        border[at] = width + (steps[at] == steps[width])
        period = at + 1 - border[at]
        if 2 * period <= at + 1:
            best = (at + 1, period)
    return best


def _unique(calls: _Issued, rank: int, routine: _Routine, controls: Iterable[int]) -> bool:
    """Return whether ranks of the same role never did what this one did where it left."""
    own = [_of_role(each) for each in calls.by(rank)[: routine.left + 1]]
    *context, new = own[-CONTROL_CONTEXT - 1 :]
    compared = 0
    for control in controls:
        followers = list(_followers([_of_role(each) for each in calls.by(control)], context))
        if new in followers:
            return False
        compared += len(followers) > 1
    # What is all new may be the next phase, which another rank has missed.
    return compared > (0 if routine.known or routine.rounds >= MIN_ROUNDS else 1)


def _of_role(each: IssuedCall) -> Hashable:
    """Identify a step on any rank of the same role: what, where in the code, how many take part."""
    call = each.call
    site = each.site
    place = (site.file, site.line) if site is not None else None
    return (family(call.op), call.p2p, place, len(each.members))


def _of_rank(each: IssuedCall) -> Hashable:
    """Identify a step of one rank: on which group and with whom, too."""
    return (_of_role(each), each.index, each.call.peer)


def _with_contents(step: Step) -> Step:
    """Tell steps apart by what they carry, too."""
    return lambda each: (step(each), elements(each.call), each.call.dtypes)

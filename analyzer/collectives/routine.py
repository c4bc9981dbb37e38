"""Who left the routine: of ranks that hold each other up, the one that did what it never does.

A training program repeats its step, over all groups and peers. Where two ranks wait for each
other and neither is in a minority, the records before tell more: one of them has gone round
and round until a certain call and then done something else (a receive left out, a call made
twice, two in another order), while the others still go round. What looks new may only be the
next phase of the program, so ranks of the same role are looked at, too: none of them may ever
have done the same after the same calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence

from whyhang.analyzer.collectives.compare import family
from whyhang.analyzer.collectives.groups import JobCalls
from whyhang.analyzer.collectives.history import MIN_ROUNDS, history_of, order_of
from whyhang.analyzer.facts import Call, Record
from whyhang.analyzer.stacks.usercode import user_frame

MAX_CALLS = 2000
MAX_RANKS = 8
MAX_CONTROLS = 4
MAX_SINCE = 3
"""How many rounds a rank may have gone on since it left its routine."""

CONTEXT = 24
"""How many calls before a departure must be the same for another rank to be compared."""

Step = Callable[["Issued"], Hashable]


class Issued(Record):
    """A call of one rank, with the group it was made on and how many are in that."""

    group: int
    size: int
    call: Call


class _Course(Record):
    """What a rank did, call by call: ``left`` is where it left its routine, None if nowhere.

    ``rounds`` is how often it went round before.
    """

    keys: tuple[Hashable, ...]
    left: int | None
    rounds: int = 0


def who_left(job: JobCalls, ranks: Sequence[int]) -> tuple[int, ...]:
    """Find those of a few ranks that left their routine; none unless all others keep theirs."""
    if len(ranks) < 2 or len(ranks) > MAX_RANKS:
        return ()
    issued = {rank: issued_by(job, rank) for rank in ranks}
    for own, shared in ((_full, full_anywhere), (_plain, plain_anywhere)):
        courses = {rank: _course([own(i) for i in issued[rank]]) for rank in ranks}
        left = [rank for rank, course in courses.items() if course and course.left is not None]
        if None in courses.values() or not left or 2 * len(left) > len(ranks):
            continue
        others = [r for r in ranks if r not in left]
        if all(_alone(job, issued[r], courses[r], shared, (*_near(job, r, left), *others))
               for r in left):  # fmt: skip
            return tuple(sorted(left))
    return ()


def issued_by(job: JobCalls, rank: int) -> list[Issued]:
    """List all recorded calls of a rank, over all groups, in the order of issue."""
    found: list[Issued] = []
    for number, group in enumerate(job.groups):
        progress = group.progress.get(rank)
        if progress is None or not progress.tracks:
            continue
        size = len(group.members)
        calls = (*history_of(progress).values(), *order_of(progress))
        found += [
            Issued(group=number, size=size, call=call) for call in calls if call.order is not None
        ]
    found.sort(key=lambda issued: issued.call.order or 0)
    return found[-MAX_CALLS:]


def _course(keys: list[Hashable]) -> _Course | None:
    """Find the routine in a sequence: a period, up to the end or to shortly before it."""
    for start in (0, len(keys) // 4, len(keys) // 2):
        tail = keys[start:]
        length, period = _periodic(tail)
        if not period or len(tail) - length > MAX_SINCE * period:
            continue
        if length == len(tail):
            return _Course(keys=tuple(keys), left=None)
        if length >= 3 * period:
            return _Course(keys=tuple(keys), left=start + length, rounds=length // period)
    return None


def _periodic(keys: Sequence[Hashable]) -> tuple[int, int]:
    """Give the length of the longest beginning that repeats itself, and its period."""
    border = [0] * len(keys)
    best = (0, 0)
    for at in range(1, len(keys)):
        width = border[at - 1]
        while width and keys[at] != keys[width]:
            width = border[width - 1]
        border[at] = width + (keys[at] == keys[width])
        period = at + 1 - border[at]
        if 2 * period <= at + 1:
            best = (at + 1, period)
    return best


def _alone(
    job: JobCalls,
    issued: Sequence[Issued],
    course: _Course | None,
    shared: Step,
    controls: Iterable[int],
) -> bool:
    """Tell whether ranks of the same role never did what this one did where it left."""
    if course is None or course.left is None:
        return False
    at = course.left
    before = [shared(i) for i in issued[max(0, at - CONTEXT) : at]]
    new = shared(issued[at])
    compared = 0
    for rank in list(dict.fromkeys(controls))[:MAX_CONTROLS]:
        followers = _followers([shared(i) for i in issued_by(job, rank)], before)
        if new in followers:
            return False
        compared += len(followers) > 1
    if course.keys[at] in course.keys[:at] or course.rounds >= MIN_ROUNDS:
        return compared > 0
    return compared > 1  # what is all new may be the next phase, which another rank has missed


def _followers(keys: Sequence[Hashable], before: Sequence[Hashable]) -> list[Hashable]:
    """List what followed the same calls."""
    width = len(before)
    return [
        keys[at]
        for at in range(width, len(keys))
        if keys[at - 1] == before[-1] and keys[at - width : at] == before
    ]


def _near(job: JobCalls, rank: int, without: Sequence[int]) -> list[int]:
    """Choose a few ranks that share a group with this one, the smallest groups first."""
    groups = [group for group in job.groups if rank in group.progress]
    found: list[int] = []
    for group in sorted(groups, key=lambda group: len(group.members)):
        others = [
            r for r, progress in group.progress.items() if r not in without and progress.tracks
        ]
        found += sorted(others, key=lambda other: abs(other - rank))[:1]
    return found


def plain_anywhere(issued: Issued) -> Hashable:
    """Identify a step on any rank of the same role."""
    site = user_frame(issued.call.frames)
    place = (site.file, site.line) if site is not None else None
    return (family(issued.call.op), issued.call.p2p, place, issued.size)


def _plain(issued: Issued) -> Hashable:
    """Identify a step of one rank: what, where in the code, on which group, with whom."""
    return (plain_anywhere(issued), issued.group, issued.call.peer)


def full_anywhere(issued: Issued) -> Hashable:
    """Identify a step on any rank of the same role, with what it carries."""
    return (plain_anywhere(issued), _elements(issued.call), issued.call.dtypes)


def _full(issued: Issued) -> Hashable:
    return (_plain(issued), _elements(issued.call), issued.call.dtypes)


def _elements(call: Call) -> tuple[int, ...]:
    if call.op == "all_to_all":
        return ()  # differs from call to call by design
    return tuple(math.prod(shape) for shape in call.input_sizes or ())

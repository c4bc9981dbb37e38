"""What a rank did before: skipped and surplus calls, and who left its own habit.

Training programs repeat themselves. Where two ranks part, shifting one sequence by a call or two
tells whether one of them left a call out; and of two ranks that meet in different calls, the one
whose step from the last call to this one never occurred before is the one to look at.
Only a few ranks are ever looked at in this way, with all that their recorder holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from whyhang.analyzer.collectives.compare import family
from whyhang.analyzer.collectives.groups import GroupProgress
from whyhang.analyzer.collectives.records import Verdict
from whyhang.analyzer.facts import Call, CallState, Frame, Record
from whyhang.analyzer.stacks.usercode import Origin, origin, user_frame

MAX_SHIFT = 16
MAX_DIVERGENCES = 64
MIN_ROUNDS = 5
CONTEXT = 6
"""Calls that must come before a step as they did in an earlier round."""

Key = tuple[object, ...]
History = Mapping[int, Call]


class Shift(Record):
    """One rank's sequence fits the others' from ``seq`` on, once ``calls`` are put in or out.

    ``verdict`` is SKIPPED, EXTRA or ORDER; ``missed`` is the first call concerned.
    """

    verdict: Verdict
    seq: int
    calls: int
    missed: Call


def history_of(progress: GroupProgress) -> dict[int, Call]:
    """Give all collectives of a rank on a group by number, reading the source once more."""
    known = dict(progress.calls)
    for track in progress.tracks:
        if track.detail is not None:
            for call in track.detail():
                if not call.p2p and call.seq is not None:
                    known.setdefault(call.seq, call)
    return known


def order_of(progress: GroupProgress) -> tuple[Call, ...]:
    """Give all sends and receives of a rank on a group in the order of issue."""
    read = (track.detail() for track in progress.tracks if track.detail is not None)
    whole = next((calls for calls in read if calls), progress.p2p)
    return tuple(call for call in whole if call.p2p)


def shift(theirs: History, usual: History) -> Shift | None:
    """Find out whether one rank's calls (``theirs``) are the ``usual`` ones, shifted."""
    for key in (_strong, _weak):
        found = _shift(theirs, usual, key)
        if found is not None:
            return found
    return None


def off_habit(before: Sequence[Call], call: Call) -> bool | None:
    """Tell whether a rank never took the step to ``call`` before; None if it has no habit.

    ``before`` are its earlier calls, oldest first. A few rounds make no habit: what comes every
    tenth step (an evaluation, a checkpoint) looks new to whoever knows three.
    """
    usual, rounds = usual_step([_peer_key(earlier) for earlier in before], (CONTEXT, 1))
    return _peer_key(call) != usual if rounds >= MIN_ROUNDS else None


def usual_step(before: Sequence[Hashable], widths: Iterable[int]) -> tuple[Hashable | None, int]:
    """Say what followed the last calls in earlier rounds, and in how many of them.

    ``widths`` are how many calls must be the same, tried one after the other until there was
    such a round. None if what followed differs, or there was none.
    """
    for width in widths:
        context = before[-width:]
        followers = [
            before[end]
            for end in range(width, len(before))
            if before[end - 1] == context[-1] and before[end - width : end] == context
        ]
        if followers:
            return (followers[0], len(followers)) if len(set(followers)) == 1 else (None, 0)
    return None, 0


def left_loop(theirs: History, usual: History, seq: int) -> bool:
    """Tell whether a rank's barrier lies behind the loop that the others are still in.

    It never made this call before, has often made theirs, and stands further down in a
    function that is on both stacks. Other operations than a barrier look just like a branch
    within the loop that only this rank took.
    """
    own, others = theirs.get(seq), usual.get(seq)
    if own is None or others is None or own.op != "barrier" or not own.frames:
        return False
    before = [_strong(call) for n, call in theirs.items() if n < seq]
    if _strong(own) in before or before.count(_strong(others)) < 2:
        return False
    for a, b in zip(_user_stack(own), _user_stack(others), strict=False):
        if (a.file, a.function) != (b.file, b.function):
            return False
        if a.line != b.line:
            return (a.line or 0) > (b.line or 0)
    return False


def _shift(theirs: History, usual: History, key: Callable[[Call], Key]) -> Shift | None:
    differing = [n for n in sorted(theirs.keys() & usual.keys()) if key(theirs[n]) != key(usual[n])]
    for seq in differing[:MAX_DIVERGENCES]:
        agreed = seq == 1 or (
            seq - 1 in theirs and seq - 1 in usual and key(theirs[seq - 1]) == key(usual[seq - 1])
        )
        if agreed and (found := _shift_at(seq, theirs, usual, key)) is not None:
            return found
    return None


def _shift_at(
    seq: int, theirs: History, usual: History, key: Callable[[Call], Key]
) -> Shift | None:
    """Try to explain what differs from ``seq`` on."""
    nexts = (theirs.get(seq + 1), usual.get(seq + 1))
    if (
        nexts[0] is not None
        and nexts[1] is not None
        and key(theirs[seq]) == key(nexts[1])
        and key(nexts[0]) == key(usual[seq])
    ):
        return Shift(verdict=Verdict.ORDER, seq=seq, calls=1, missed=usual[seq])
    best: tuple[int, Shift] | None = None
    for calls in range(1, MAX_SHIFT + 1):
        for verdict, short, long in (
            (Verdict.SKIPPED, theirs, usual),
            (Verdict.EXTRA, usual, theirs),
        ):
            fits = _fits(seq, short, long, calls, key)
            if fits and (best is None or fits > best[0]):
                found = Shift(verdict=verdict, seq=seq, calls=calls, missed=long[seq])
                best = (fits, found)
    return best[1] if best is not None else _by_custom(seq, theirs, usual, key)


def _fits(seq: int, short: History, long: History, calls: int, key: Callable[[Call], Key]) -> int:
    """Count the calls of ``short`` that are those of ``long``, ``calls`` later; 0 if any is not."""
    count = 0
    while seq + count in short and seq + count + calls in long:
        if key(short[seq + count]) != key(long[seq + count + calls]):
            return 0
        count += 1
    return count


def _by_custom(
    seq: int, theirs: History, usual: History, key: Callable[[Call], Key]
) -> Shift | None:
    """Where both stand at ``seq``: see if this call usually comes a little after the others'."""
    before = usual.get(seq - 1)
    if before is None:
        return None
    mine, others, last = key(theirs[seq]), key(usual[seq]), key(before)
    if mine == last and _in_a_row(theirs.get(seq - 1), theirs[seq]):
        return Shift(verdict=Verdict.EXTRA, seq=seq, calls=1, missed=theirs[seq])
    for earlier in sorted((n for n in usual if n < seq), reverse=True):
        if key(usual[earlier]) != others or earlier - 1 not in usual:
            continue
        if key(usual[earlier - 1]) != last:
            continue
        for calls in range(1, MAX_SHIFT + 1):
            later = usual.get(earlier + calls)
            if later is None or earlier + calls >= seq:
                break
            if key(later) == mine:
                return Shift(verdict=Verdict.SKIPPED, seq=seq, calls=calls, missed=usual[seq])
    return None


def _in_a_row(one: Call | None, other: Call) -> bool:
    """Tell whether a rank made no call on another group between these two, or nobody knows."""
    if one is None or one.order is None or other.order is None:
        return True
    return other.order == one.order + 1


def _strong(call: Call) -> Key:
    """Identify a step of the program: what is called and from where."""
    site = user_frame(call.frames)
    if site is None:
        return _weak(call)
    return (family(call.op), site.file, site.line)


def _weak(call: Call) -> Key:
    shapes = call.input_sizes or ()
    sizes = () if call.op == "all_to_all" else tuple(math.prod(shape) for shape in shapes)
    return (family(call.op), sizes, call.dtypes)


def _peer_key(call: Call) -> Key:
    return (*_strong(call), call.peer)


def _user_stack(call: Call) -> list[Frame]:
    """Give the frames that are not a library's, outermost first."""
    return [frame for frame in reversed(call.frames) if origin(frame) is not Origin.LIBRARY]


def earlier(history: History, seq: int) -> list[Call]:
    """Give the calls before a number, oldest first."""
    return [history[n] for n in sorted(history) if n < seq]


def finished(calls: Sequence[Call]) -> list[Call]:
    """Give the calls that are done."""
    return [call for call in calls if call.state is CallState.COMPLETED]

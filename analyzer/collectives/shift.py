"""Calls skipped or made once too often: one rank's sequence on a group against the others'.

Training programs repeat themselves. Where two ranks diverge, shifting one sequence by a call or
two shows whether one of them left a call out.
"""

from collections.abc import Callable, Mapping

from whyhang.analyzer.collectives.call_finding import Verdict
from whyhang.analyzer.collectives.mismatch import elements, family
from whyhang.analyzer.facts import Call, Frame, Record
from whyhang.analyzer.stacks.source_paths import fork
from whyhang.analyzer.stacks.usercode import Origin, origin, user_frame

MAX_SHIFT = 16
MAX_DIFFERENCES = 64

Step = Callable[[Call], tuple[object, ...]]
Calls = Mapping[int, Call]
"""Collectives of one rank on one group by sequence number."""


class Shift(Record):
    """One rank's sequence fits the usual one from ``seq`` on, once ``calls`` are put in or out.

    ``verdict`` is SKIPPED, EXTRA or REORDERED; ``missed`` is the first call concerned.
    """

    verdict: Verdict
    seq: int
    calls: int
    missed: Call


def find_shift(own: Calls, usual: Calls) -> Shift | None:
    """Return how one rank's calls are the ``usual`` ones, shifted; None if they are not."""
    for step in (_place, _contents):
        differing = [n for n in sorted(own.keys() & usual.keys()) if step(own[n]) != step(usual[n])]
        for seq in differing[:MAX_DIFFERENCES]:
            before = own.get(seq - 1), usual.get(seq - 1)
            agreed = before[0] and before[1] and step(before[0]) == step(before[1])
            shift = _shift_at(seq, own, usual, step) if seq == 1 or agreed else None
            if shift is not None:
                return shift
    return None


def left_loop(own: Calls, usual: Calls, seq: int) -> bool:
    """Return whether a rank's barrier lies behind the loop that the others are still in.

    It never made this call before, has often made theirs, and is further down in a function
    that is on both stacks. Other operations than a barrier look just like a branch within the
    loop that only this rank took.
    """
    mine, theirs = own.get(seq), usual.get(seq)
    if mine is None or theirs is None or mine.op != "barrier" or not mine.frames:
        return False
    before = [_place(call) for n, call in own.items() if n < seq]
    if _place(mine) in before or before.count(_place(theirs)) < 2:
        return False
    forked = fork(_user_stack(mine), _user_stack(theirs))
    return forked is not None and (forked[0].line or 0) > (forked[1].line or 0)


def _shift_at(seq: int, own: Calls, usual: Calls, step: Step) -> Shift | None:
    """Try to explain what differs from ``seq`` on."""
    after = own.get(seq + 1), usual.get(seq + 1)
    swapped = after[0] and after[1] and step(own[seq]) == step(after[1])
    if swapped and after[0] and step(after[0]) == step(usual[seq]):
        return Shift(verdict=Verdict.REORDERED, seq=seq, calls=1, missed=usual[seq])
    best, most = None, 0
    for calls in range(1, MAX_SHIFT + 1):
        for verdict, short, long in ((Verdict.SKIPPED, own, usual), (Verdict.EXTRA, usual, own)):
            agreeing = _agreeing(seq, short, long, calls, step)
            if agreeing > most:
                best = Shift(verdict=verdict, seq=seq, calls=calls, missed=long[seq])
                most = agreeing
    return best or _by_earlier_rounds(seq, own, usual, step)


def _agreeing(seq: int, short: Calls, long: Calls, calls: int, step: Step) -> int:
    """Count the calls of ``short`` that are those of ``long``, ``calls`` later; 0 if any is not."""
    count = 0
    while seq + count in short and seq + count + calls in long:
        if step(short[seq + count]) != step(long[seq + count + calls]):
            return 0
        count += 1
    return count


def _by_earlier_rounds(seq: int, own: Calls, usual: Calls, step: Step) -> Shift | None:
    """See if the call at ``seq``, the last of all, usually comes a little after the others'."""
    before = usual.get(seq - 1)
    if before is None:
        return None
    mine, theirs, last = step(own[seq]), step(usual[seq]), step(before)
    one, other = own.get(seq - 1), own[seq].order
    alone = one is None or one.order is None or other is None or other == one.order + 1
    if mine == last and alone:  # it made no call on another group in between, as far as known
        return Shift(verdict=Verdict.EXTRA, seq=seq, calls=1, missed=own[seq])
    rounds = (n for n in sorted(usual, reverse=True) if n < seq and n - 1 in usual)
    for earlier in rounds:
        if (step(usual[earlier - 1]), step(usual[earlier])) != (last, theirs):
            continue
        for later in range(earlier + 1, min(earlier + MAX_SHIFT + 1, seq)):
            if later not in usual:
                break
            if step(usual[later]) == mine:
                calls = later - earlier
                return Shift(verdict=Verdict.SKIPPED, seq=seq, calls=calls, missed=usual[seq])
    return None


def _place(call: Call) -> tuple[object, ...]:
    """Identify a step of the program by what is called and from where."""
    site = user_frame(call.frames)
    return _contents(call) if site is None else (family(call.op), site.file, site.line)


def _contents(call: Call) -> tuple[object, ...]:
    return (family(call.op), elements(call), call.dtypes)


def _user_stack(call: Call) -> list[Frame]:
    return [frame for frame in reversed(call.frames) if origin(frame) is not Origin.LIBRARY]

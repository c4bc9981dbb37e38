"""Findings about ranks that met in different calls, and how they came to part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from whyhang.analyzer.collectives import words
from whyhang.analyzer.collectives.compare import Camp
from whyhang.analyzer.collectives.groups import GroupCalls
from whyhang.analyzer.collectives.heads import refer, site_of
from whyhang.analyzer.collectives.history import earlier, history_of, left_loop, off_habit, shift
from whyhang.analyzer.collectives.mates import odd_ones
from whyhang.analyzer.collectives.meet import Meeting
from whyhang.analyzer.collectives.records import Finding, Quote, Side, Verdict
from whyhang.analyzer.collectives.routine import who_left
from whyhang.analyzer.collectives.scene import Scene, sources
from whyhang.analyzer.facts import Call, replace

MAX_SPLITS = 8
"""Mismatches that are told; more are of the same kind."""


def mismatches(scene: Scene) -> Iterable[Finding]:
    """Judge every call in which ranks stand that called different things, the fullest first."""
    split = [meeting for meeting in scene.meetings if meeting.split is not None]
    split.sort(key=lambda meeting: -len(meeting.inside))
    for meeting in split[:MAX_SPLITS]:
        finding = _mismatch(scene, meeting)
        if finding is not None:
            yield finding


def _mismatch(scene: Scene, meeting: Meeting) -> Finding | None:
    split = meeting.split
    if split is None:
        return None
    sides = tuple(_side(meeting.group, meeting.seq, camp) for camp in split.camps)
    culprits, by_history = split.minority, False
    if split.tie:
        culprits = (
            _odd_value(meeting, split.field, sides)
            or _odd_side(scene, sides)
            or _off_habit(meeting, sides)
            or _off_routine(scene, sides)
        )
        by_history = bool(culprits)
    odd = next((side for side in sides if set(side.ranks) & set(culprits)), sides[-1])
    waiting = tuple(rank for rank in meeting.ranks if rank not in culprits)
    quotes = tuple(_quote(meeting, side) for side in sides if side.source is not None)
    finding = Finding(
        verdict=Verdict.MISMATCH,
        says=words.mismatch(meeting.call, split.field, sides, culprits),
        call=meeting.call,
        culprits=culprits,
        waiting=waiting,
        affected=scene.reaching({head.rank for head in meeting.inside}, culprits),
        field=split.field,
        sides=sides,
        tie=split.tie and not by_history,
        by_history=by_history,
        site=odd.site,
        waiting_site=sides[0].site,
        quotes=quotes,
        sources=sources(quotes),
        inferred=meeting.group.inferred,
    )
    return _with_history(finding, meeting, sides, odd) if culprits else finding


def _side(group: GroupCalls, seq: int, camp: Camp) -> Side:
    progress = group.progress[camp.ranks[0]]
    call = progress.calls[seq]
    return Side(
        says=camp.says,
        ranks=camp.ranks,
        call=refer(group, call),
        site=site_of(call),
        source=progress.source,
    )


def _quote(meeting: Meeting, side: Side) -> Quote:
    rank = side.ranks[0]
    progress = meeting.group.progress[rank]
    source = side.source or meeting.inside[0].source
    text = words.record(progress.calls[meeting.seq], meeting.group.name)
    if source is None:
        raise ValueError("a side without a source is not quoted")
    return Quote(rank=rank, source=source, text=text)


def _off_habit(meeting: Meeting, sides: Sequence[Side]) -> tuple[int, ...]:
    """Of equally many ranks, find those whose step to this call is new to them."""
    left: list[Side] = []
    for side in sides:
        history = history_of(meeting.group.progress[side.ranks[0]])
        odd = off_habit(earlier(history, meeting.seq), history[meeting.seq])
        if odd is None:
            return ()
        if odd:
            left.append(side)
    return left[0].ranks if len(left) == 1 else ()


def _odd_value(meeting: Meeting, field: str, sides: Sequence[Side]) -> tuple[int, ...]:
    """Of two sides with other sizes or types, find the one that carries what nobody did before.

    At this line of code both have carried what the other side carries, and neither this.
    """
    value = VALUES.get(field)
    if value is None or len(sides) != MAX_SIDES:
        return ()
    now, before = [], []
    for side in sides:
        history = history_of(meeting.group.progress[side.ranks[0]])
        call = history[meeting.seq]
        now.append(value(call))
        before.append(
            Counter(value(c) for c in earlier(history, meeting.seq) if _same_step(c, call))
        )
    for odd, usual in ((0, 1), (1, 0)):
        known = min(count[now[usual]] for count in before)
        if known >= MIN_KNOWN and not any(count[now[odd]] for count in before):
            return sides[odd].ranks
    return ()


VALUES: dict[str, Callable[[Call], object]] = {
    "size": lambda call: (call.input_sizes, call.output_sizes),
    "dtype": lambda call: call.dtypes,
}
MAX_SIDES = 2
MIN_KNOWN = 2
"""How often a size or type must have been carried to be a usual one."""


def _same_step(one: Call, other: Call) -> bool:
    return one.op == other.op and site_of(one) == site_of(other)


def _odd_side(scene: Scene, sides: Sequence[Side]) -> tuple[int, ...]:
    """Of equally many ranks, find the side whose ranks went another way than their mates."""
    odd = set(odd_ones(scene.job, [side.ranks[0] for side in sides]))
    return next((side.ranks for side in sides if odd == {side.ranks[0]}), ())


def _off_routine(scene: Scene, sides: Sequence[Side]) -> tuple[int, ...]:
    """Of equally many ranks, find the side whose ranks left the routine of their program."""
    left = set(who_left(scene.job, [rank for side in sides for rank in side.ranks]))
    whole = [side for side in sides if left.issuperset(side.ranks)]
    return whole[0].ranks if len(whole) == 1 and len(left) == len(whole[0].ranks) else ()


def _with_history(finding: Finding, meeting: Meeting, sides: Sequence[Side], odd: Side) -> Finding:
    """Say whether the odd ranks left a call out, made one too many, or left the loop."""
    usual_side = next((side for side in sides if side is not odd), sides[0])
    progress = meeting.group.progress
    theirs = history_of(progress[odd.ranks[0]])
    usual = history_of(progress[usual_side.ranks[0]])
    # A barrier of rank 0 alone rather belongs to a checkpoint that only it writes.
    if finding.culprits != (0,) and left_loop(theirs, usual, meeting.seq):
        return replace(
            finding,
            verdict=Verdict.UNEVEN,
            says=words.left_loop(finding.culprits, odd, usual_side),
        )
    found = shift(theirs, usual)
    if found is None or found.seq > meeting.seq:
        return finding
    missed = refer(meeting.group, found.missed)
    shift_says = words.shifted(finding.culprits, found, missed, site_of(found.missed))
    return replace(
        finding,
        verdict=found.verdict,
        says=f"{shift_says}: {words.AGREE}",
        shift_says=shift_says,
        missed=missed,
    )

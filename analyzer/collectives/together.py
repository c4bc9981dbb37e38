"""Findings about a call that all known members have joined, and not all have finished."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.collectives import words
from whyhang.analyzer.collectives.compare import ROOTED
from whyhang.analyzer.collectives.graph import CallRef, Root
from whyhang.analyzer.collectives.heads import refer, site_of
from whyhang.analyzer.collectives.mates import Apart, apart
from whyhang.analyzer.collectives.meet import Meeting
from whyhang.analyzer.collectives.records import Finding, Side, Spot, Verdict
from whyhang.analyzer.collectives.scene import Scene, merged, site_of_heads, sources, with_partings
from whyhang.analyzer.facts import Frame


def standstill(scene: Scene, meeting: Meeting, roots: Sequence[Root]) -> Finding:
    """Judge a call that all known members have joined, and none of them finished."""
    inside = tuple(sorted({*meeting.ranks, *meeting.queued}))
    if meeting.done and not meeting.unknown:
        return _left_behind(meeting, roots, scene)
    parted = apart(scene.job, inside) if len(_lines(meeting)) > 1 else ()
    if parted:
        return _out_of_step(scene, meeting, parted)
    alone = meeting.group.inferred and len(meeting.group.members) < 2
    waits = bool(meeting.unknown) or alone
    quotes = scene.quotes(inside[:3])
    return Finding(
        verdict=Verdict.WAITS_FOR_ABSENT if waits else Verdict.STUCK_TOGETHER,
        says=words.waits_for_absent(inside, meeting.call, sorted(meeting.unknown), scene.job.older)
        if waits
        else words.stuck_together(inside, meeting.call),
        call=meeting.call,
        waiting=inside,
        affected=merged((inside, *(root.blocks for root in roots))),
        absent=tuple(sorted(meeting.unknown)),
        site=site_of_heads(meeting.inside),
        waiting_site=site_of_heads(meeting.inside),
        quotes=quotes,
        sources=sources(quotes),
        inferred=meeting.group.inferred,
    )


def _lines(meeting: Meeting) -> set[Frame | None]:
    """List the lines of code from which the ranks in a call have made it."""
    return {site_of(head.call) for head in meeting.inside}


def _out_of_step(scene: Scene, meeting: Meeting, parted: Sequence[Apart]) -> Finding:
    """Judge a call that all have joined, some of them from a line where it is another one.

    Two calls that look alike (a broadcast of as many elements with another root) may meet and
    never end.
    """
    culprits = tuple(odd.rank for odd in parted)
    waiting = tuple(rank for rank in meeting.ranks if rank not in culprits)
    quotes = scene.quotes((*culprits[:2], *waiting[:2]))
    sites = [site_of(head.call) for head in meeting.inside if head.rank in waiting]
    return Finding(
        verdict=Verdict.ORDER,
        says=with_partings(scene.job, words.stuck_together(meeting.ranks, meeting.call), parted),
        call=meeting.call,
        culprits=culprits,
        waiting=waiting,
        affected=scene.reaching(set(meeting.ranks), culprits),
        by_history=True,
        missed=refer(scene.job.groups[parted[0].theirs.group], parted[0].theirs.call),
        site=site_of(parted[0].own.call),
        waiting_site=next((site for site in sites if site is not None), None),
        quotes=quotes,
        sources=sources(quotes),
        inferred=meeting.group.inferred,
    )


def _left_behind(meeting: Meeting, roots: Sequence[Root], scene: Scene) -> Finding:
    """Judge ranks that stand in a call which others have finished, where that blames nobody.

    Others may finish a call with a root early. Any other call takes everyone's part: where as
    many are through it as stand in it, each side stands in a call of its own, and they do not
    match.
    """
    inside = tuple(sorted({*meeting.ranks, *meeting.queued}))
    quotes = scene.quotes((*inside[:2], *sorted(meeting.done)[:2]))
    ahead = [
        (rank, spot)
        for rank in sorted(meeting.done)
        if (spot := scene.heads.spots.get(rank)) is not None and spot.inside and spot.call
    ]
    if meeting.call.op and meeting.call.op not in ROOTED and ahead and not meeting.recorded:
        sides = _own_sides(inside, meeting, ahead)
        return Finding(
            verdict=Verdict.PARTED,
            says=words.parted(sides),
            call=meeting.call,
            waiting=tuple(sorted({*inside, *meeting.done})),
            affected=tuple(sorted({*inside, *meeting.done})),
            sides=sides,
            site=site_of_heads(meeting.inside),
            quotes=quotes,
            sources=sources(quotes),
            inferred=meeting.group.inferred,
        )
    return Finding(
        verdict=Verdict.HALF_DONE,
        says=words.half_done(inside, meeting.call, sorted(meeting.done)),
        call=meeting.call,
        waiting=inside,
        affected=merged((inside, *(root.blocks for root in roots))),
        site=site_of_heads(meeting.inside),
        waiting_site=site_of_heads(meeting.inside),
        quotes=quotes,
        sources=sources(quotes),
        inferred=meeting.group.inferred,
    )


def _own_sides(
    inside: tuple[int, ...], meeting: Meeting, ahead: Sequence[tuple[int, Spot]]
) -> tuple[Side, ...]:
    """List who stands in which call, those that are behind by number first."""
    calls: dict[CallRef, list[int]] = defaultdict(list)
    for rank, spot in ahead:
        if spot.call is not None:
            calls[spot.call].append(rank)
    first = Side(
        says=f"in {meeting.call}",
        ranks=inside,
        call=meeting.call,
        site=site_of_heads(meeting.inside),
    )
    rest = (Side(says=f"in {call}", ranks=tuple(ranks), call=call) for call, ranks in calls.items())
    return (first, *rest)

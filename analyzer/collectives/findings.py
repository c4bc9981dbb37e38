"""From the wait graph to findings: what became of the calls, and through whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from whyhang.analyzer.collectives import words
from whyhang.analyzer.collectives.circles import deadlock, of_split
from whyhang.analyzer.collectives.graph import Root
from whyhang.analyzer.collectives.heads import refer, site_of
from whyhang.analyzer.collectives.history import history_of, shift
from whyhang.analyzer.collectives.meet import Meeting
from whyhang.analyzer.collectives.p2p import left_open
from whyhang.analyzer.collectives.records import Finding, Verdict
from whyhang.analyzer.collectives.scene import (
    Scene,
    merged,
    place,
    site_of_heads,
    sources,
)
from whyhang.analyzer.collectives.splits import mismatches
from whyhang.analyzer.collectives.together import standstill
from whyhang.analyzer.collectives.unpaired import stuck_pairs, unanswered, unpaired
from whyhang.analyzer.facts import replace

MAX_STUDIED = 4
"""Culprits of one call whose whole recorder is read for a skipped call."""


def find(scene: Scene) -> tuple[Finding, ...]:
    """Make all findings, causes first, those that hold up most ranks before others."""
    if not scene.heads.of:
        return _all_completed(scene)
    found = list(mismatches(scene))
    explained = {rank for finding in found for rank in finding.culprits}
    split = {place(meeting) for meeting in scene.meetings if meeting.split is not None}
    open_cycles = [
        cycle
        for cycle in scene.cycles
        if not of_split(scene, cycle, split) and not cycle.members & explained
    ]
    pairs = unpaired(scene, open_cycles, explained)
    if pairs is not None:
        found.append(pairs)
        explained.update(pairs.culprits, pairs.waiting)
    for finding in _unclosed(scene):
        found.append(finding)
        explained.update(finding.culprits, finding.waiting)
    found += [deadlock(scene, c) for c in open_cycles if c.chain and not c.members & explained]
    found += _ends(scene, explained, split)
    if any(finding.culprits for finding in found):
        # Whoever left no record may well wait for those who are known to hold others up.
        found = [replace(f, cause=f.verdict is not Verdict.WAITS_FOR_ABSENT) for f in found]
    return tuple(sorted(found, key=lambda f: (not f.cause, not f.culprits, -len(f.affected))))


def _all_completed(scene: Scene) -> tuple[Finding, ...]:
    known = [p for group in scene.job.groups for p in group.progress.values() if p.known]
    if all(progress.completed is None for progress in known):
        return ()  # nothing tells of an end
    if scene.job.older or any(t.absent for t in scene.job.groups if not t.inferred):
        return ()  # the open call of a rank that left no record may be the one that matters
    if any(progress.unrecorded for progress in known):
        return ()  # so may be one that is not recorded
    ranks = sorted(scene.job.present)
    quotes = scene.quotes(ranks[:3])
    return (
        Finding(
            verdict=Verdict.ALL_COMPLETED,
            says=words.all_completed(ranks),
            quotes=quotes,
            sources=sources(quotes),
        ),
    )


def _ends(scene: Scene, explained: set[int], split: set[tuple[int, int]]) -> Iterable[Finding]:
    """Judge the members at which the waits end."""
    late: list[Root] = []
    stuck: dict[tuple[int, int], list[Root]] = defaultdict(list)
    pairs: list[Root] = []
    for root in scene.roots:
        if root.member in explained:
            continue
        meeting = scene.meeting_of(root.member)
        if meeting is None:
            heads = scene.heads.of.get(root.member, ())
            (pairs if any(head.call.p2p for head in heads) else late).append(root)
        elif meeting.stalled or root.member in meeting.missing:
            late.append(root)
        elif place(meeting) not in split:
            stuck[place(meeting)].append(root)
    found = _late(scene, [root for root in late if root.direct])
    if found is not None:
        yield found
    yield from (
        standstill(scene, scene.meeting_by_place[key], roots) for key, roots in stuck.items()
    )
    yield from stuck_pairs(scene, pairs)


def _late(scene: Scene, roots: Sequence[Root]) -> Finding | None:
    """Make one finding of all ranks that others wait for and that wait for no rank."""
    best: dict[int, Meeting] = {}
    wanted = {root.member for root in roots}
    for meeting in sorted(scene.meetings, key=lambda m: len(m.inside)):
        best.update(dict.fromkeys(wanted & meeting.missing, meeting))
    parts: dict[tuple[int, int], list[Root]] = defaultdict(list)
    for root in roots:
        where = best.get(root.member) or scene.meeting_of(root.member)
        parts[place(where) if where is not None else (-1, root.member)].append(root)
    found = [
        finding
        for key, members in parts.items()
        if (finding := _late_part(scene, scene.meeting_by_place.get(key), members)) is not None
    ]
    if not found:
        return None
    found = _not_recorded(scene, found)
    found.sort(key=lambda f: (f.verdict is Verdict.STALLED, -len(f.waiting)))
    if len(found) == 1:
        return found[0]
    return replace(
        found[0],
        says=words.several([part.says for part in found]),
        culprits=merged(part.culprits for part in found),
        affected=merged(part.affected for part in found),
        quotes=tuple(dict.fromkeys(quote for part in found for quote in part.quotes)),
        sources=tuple(dict.fromkeys(source for part in found for source in part.sources)),
        parts=tuple(found),
    )


def _not_recorded(scene: Scene, found: list[Finding]) -> list[Finding]:
    """Take blame back from late ranks that may wait for each other in unrecorded calls."""
    culprits = {rank for finding in found for rank in finding.culprits}
    apart = {
        rank
        for group in scene.job.groups
        for rank, progress in group.progress.items()
        if rank in culprits and progress.unrecorded and rank not in scene.job.stacks
    }
    if not apart:
        return found
    if len(culprits) == 1 and not any(group.absent for group in scene.job.groups):
        return [replace(finding, unrecorded=True) for finding in found]
    return [
        replace(
            finding,
            verdict=Verdict.LATE_OR_APART,
            says=words.late_or_apart(finding.says, sorted(culprits)),
            culprits=(),
            affected=merged((finding.affected, finding.culprits)),
        )
        if apart.issuperset(finding.culprits)
        else finding
        for finding in found
    ]


def _late_part(scene: Scene, meeting: Meeting | None, roots: Sequence[Root]) -> Finding | None:
    """Judge the ranks that hold up one call."""
    culprits = tuple(sorted(root.member for root in roots))
    affected = merged(root.blocks for root in roots)
    spot = scene.heads.spots.get(culprits[0])
    if meeting is None:
        return unanswered(scene, culprits, affected)
    waiting = tuple(rank for rank in meeting.ranks if rank not in culprits)
    stalled = not set(culprits) & meeting.missing
    quotes = scene.quotes((*culprits[:3], *waiting[:2]))
    base = Finding(
        verdict=Verdict.STALLED if stalled else Verdict.NEVER_JOINED,
        says=words.stalled(culprits, meeting.call, sorted(meeting.done))
        if stalled
        else words.never_joined(culprits, meeting.call, waiting, spot),
        call=meeting.call,
        culprits=culprits,
        waiting=tuple(sorted(meeting.done)) if stalled else waiting,
        affected=affected,
        absent=tuple(sorted(meeting.unknown)),
        missed=spot.call if spot is not None else None,
        site=spot.site if spot is not None else None,
        waiting_site=site_of_heads(meeting.inside),
        quotes=quotes,
        sources=sources(quotes),
        inferred=meeting.group.inferred,
    )
    return base if stalled or not waiting else _with_history(base, meeting, waiting[0])


def _with_history(base: Finding, meeting: Meeting, waiting: int) -> Finding:
    """Find out whether the ranks are behind because they left a call out before."""
    usual = history_of(meeting.group.progress[waiting])
    for rank in base.culprits[:MAX_STUDIED]:
        found = shift(history_of(meeting.group.progress[rank]), usual)
        if found is not None and found.verdict is not Verdict.EXTRA:
            missed = refer(meeting.group, found.missed)
            shift_says = words.shifted(base.culprits, found, missed, site_of(found.missed))
            return replace(
                base,
                verdict=found.verdict,
                says=f"{shift_says}: {words.AGREE}",
                shift_says=shift_says,
                missed=missed,
                site=site_of(found.missed) or base.site,
            )
    return base


def _unclosed(scene: Scene) -> Iterable[Finding]:
    met = {p.head.rank for p in scene.pairings if p.answered and p.ready}
    again = sorted(root.member for root in scene.roots if root.member in met)[:MAX_STUDIED]
    for rank, heads in scene.heads.of.items():
        head = heads[0]
        if not head.call.unclosed and not (rank in again and left_open(scene.job, head)):
            continue
        call = refer(scene.group(head), head.call)
        quotes = scene.quotes((rank,))
        yield Finding(
            verdict=Verdict.COALESCED_OPEN,
            says=words.unclosed(rank, call, site_of(head.call)),
            call=call,
            culprits=(rank,),
            waiting=tuple(sorted({p.peer for p in scene.pairings if p.head is head} - {rank})),
            affected=scene.reaching({rank}, (rank,)),
            site=site_of(head.call),
            quotes=quotes,
            sources=sources(quotes),
        )

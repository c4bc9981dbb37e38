"""From the wait graph to findings: what became of the calls, and through whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from whyhang.analyzer.graph import CallRef, Cycle, Root
from whyhang.analyzer.ledger import words
from whyhang.analyzer.ledger.compare import ROOTED
from whyhang.analyzer.ledger.heads import refer, site_of
from whyhang.analyzer.ledger.history import history_of, shift
from whyhang.analyzer.ledger.mates import Apart, apart, odd_ones
from whyhang.analyzer.ledger.meet import Meeting
from whyhang.analyzer.ledger.p2p import left_habit, left_open
from whyhang.analyzer.ledger.records import Finding, Side, Spot, Verdict
from whyhang.analyzer.ledger.routine import who_left
from whyhang.analyzer.ledger.scene import (
    Scene,
    merged,
    place,
    site_of_heads,
    sources,
    with_partings,
)
from whyhang.analyzer.ledger.splits import mismatches
from whyhang.analyzer.ledger.unpaired import stuck_pairs, unanswered, unpaired
from whyhang.analyzer.model import Frame, replace

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
        if not _of_split(scene, cycle, split) and not cycle.members & explained
    ]
    pairs = unpaired(scene, open_cycles, explained)
    if pairs is not None:
        found.append(pairs)
        explained.update(pairs.culprits, pairs.waiting)
    for finding in _unclosed(scene):
        found.append(finding)
        explained.update(finding.culprits, finding.waiting)
    found += [_deadlock(scene, c) for c in open_cycles if c.chain and not c.members & explained]
    found += _ends(scene, explained, split)
    if any(finding.culprits for finding in found):
        # Whoever left no record may well wait for those who are known to hold others up.
        found = [replace(f, cause=f.verdict is not Verdict.WAITS_FOR_ABSENT) for f in found]
    return tuple(sorted(found, key=lambda f: (not f.cause, not f.culprits, -len(f.affected))))


def _all_completed(scene: Scene) -> tuple[Finding, ...]:
    standings = [s for table in scene.book.tables for s in table.standings.values() if s.known]
    if all(standing.completed is None for standing in standings):
        return ()  # nothing tells of an end
    if scene.book.older or any(t.absent for t in scene.book.tables if not t.inferred):
        return ()  # the open call of a rank that left no record may be the one that matters
    if any(standing.unrecorded for standing in standings):
        return ()  # so may be one that is not recorded
    ranks = sorted(scene.book.present)
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
    yield from (_stuck(scene, scene.meeting_by_place[key], roots) for key, roots in stuck.items())
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
        for table in scene.book.tables
        for rank, own in table.standings.items()
        if rank in culprits and own.unrecorded and rank not in scene.book.stacks
    }
    if not apart:
        return found
    if len(culprits) == 1 and not any(table.absent for table in scene.book.tables):
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
        inferred=meeting.table.inferred,
    )
    return base if stalled or not waiting else _with_history(base, meeting, waiting[0])


def _with_history(base: Finding, meeting: Meeting, waiting: int) -> Finding:
    """Find out whether the ranks are behind because they left a call out before."""
    usual = history_of(meeting.table.standings[waiting])
    for rank in base.culprits[:MAX_STUDIED]:
        found = shift(history_of(meeting.table.standings[rank]), usual)
        if found is not None and found.verdict is not Verdict.EXTRA:
            missed = refer(meeting.table, found.missed)
            return replace(
                base,
                verdict=found.verdict,
                says=words.shifted(base.culprits, found, missed, site_of(found.missed)),
                missed=missed,
                site=site_of(found.missed) or base.site,
            )
    return base


def _unclosed(scene: Scene) -> Iterable[Finding]:
    met = {p.head.rank for p in scene.pairings if p.answered and p.ready}
    again = sorted(root.member for root in scene.roots if root.member in met)[:MAX_STUDIED]
    for rank, heads in scene.heads.of.items():
        head = heads[0]
        if not head.call.unclosed and not (rank in again and left_open(scene.book, head)):
            continue
        call = refer(scene.table(head), head.call)
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


def _deadlock(scene: Scene, cycle: Cycle) -> Finding:
    """Judge ranks that wait only for each other, in calls of several groups."""
    links = cycle.chain
    caught = [link.wait.waiter for link in links]
    known = _fewer_by_group(scene, cycle) or tuple(
        sorted({rank for rank in caught if left_habit(scene.book, rank)})
    )
    parted = () if known else apart(scene.book, caught)
    culprits = known or tuple(odd.rank for odd in parted) or who_left(scene.book, caught)
    culprits = _and_alike(scene, culprits, cycle)
    quotes = scene.quotes([link.wait.waiter for link in links])
    odd = next((link for link in links if link.wait.waiter in culprits), links[0])
    return Finding(
        verdict=Verdict.CROSS_GROUP,
        says=with_partings(scene.book, words.deadlock(links), parted),
        call=links[0].wait.call,
        culprits=culprits,
        waiting=tuple(sorted(cycle.members - set(culprits))),
        affected=tuple(sorted((cycle.members | cycle.blocks) - set(culprits))),
        sides=tuple(
            Side(
                says=f"in {link.wait.call}",
                ranks=(link.wait.waiter,),
                call=link.wait.call or CallRef(op=None, group=""),
                site=link.wait.site,
                source=link.wait.source,
            )
            for link in links
        ),
        site=site_of(parted[0].own.call) if parted else odd.wait.site,
        cycle=cycle,
        quotes=quotes,
        sources=sources(quotes),
    )


def _and_alike(scene: Scene, culprits: tuple[int, ...], cycle: Cycle) -> tuple[int, ...]:
    """Add the ranks of a circle that stand in the same call as one that left its way.

    A chain shows one rank of each call only. Who came to that call as others do is no culprit.
    """
    found = set(culprits)
    for rank in culprits:
        meeting = scene.meeting_of(rank)
        beside = sorted(set(meeting.ranks if meeting else ()) & cycle.members - {rank})
        links = [link.wait.waiter for link in cycle.chain if link.wait.waiter not in culprits]
        for other in beside[:MAX_STUDIED]:
            if other not in links and other in odd_ones(scene.book, (other, *links[:1])):
                found.add(other)
    return tuple(sorted(found))


def _fewer_by_group(scene: Scene, cycle: Cycle) -> tuple[int, ...]:
    """Name the ranks that entered two groups in the rarer order, among those who are in both.

    Where sends or a third group are part of the circle, some only wait as a result, and to
    count them proves nothing.
    """
    calls = [link.wait.call for link in cycle.chain]
    if len({call.group for call in calls if call is not None and not call.p2p}) != 2:
        return ()
    if any(call is None or call.p2p for call in calls):
        return ()
    head_of = {
        rank: heads[0].table
        for rank, heads in scene.heads.of.items()
        if rank in cycle.members and heads[0].table >= 0
    }
    entered: dict[tuple[int, int], set[int]] = defaultdict(set)  # first group, other group
    for other in set(head_of.values()):
        for rank in scene.book.tables[other].members:
            if head_of.get(rank, other) != other:
                entered[head_of[rank], other].add(rank)
    culprits: set[int] = set()
    for (one, other), ranks in entered.items():
        opposite = entered.get((other, one), set())
        absent = scene.book.tables[one].absent & scene.book.tables[other].absent
        if opposite and len(ranks) + len(absent) < len(opposite):
            culprits |= ranks
    return tuple(sorted(culprits))


def _of_split(scene: Scene, cycle: Cycle, split: set[tuple[int, int]]) -> bool:
    """Tell whether a cycle is nothing but ranks that met in different calls."""
    for link in cycle.chain:
        meeting = scene.meeting_of(link.wait.waiter)
        if meeting is not None and place(meeting) in split:
            return True
    return False


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


def _stuck(scene: Scene, meeting: Meeting, roots: Sequence[Root]) -> Finding:
    """Judge a call that all known members have joined, and none of them finished."""
    inside = tuple(sorted({*meeting.ranks, *meeting.queued}))
    if meeting.done and not meeting.unknown:
        return _left_behind(meeting, roots, scene)
    parted = apart(scene.book, inside) if len(_lines(meeting)) > 1 else ()
    if parted:
        return _out_of_step(scene, meeting, parted)
    alone = meeting.table.inferred and len(meeting.table.members) < 2
    waits = bool(meeting.unknown) or alone
    quotes = scene.quotes(inside[:3])
    return Finding(
        verdict=Verdict.WAITS_FOR_ABSENT if waits else Verdict.STUCK_TOGETHER,
        says=words.waits_for_absent(inside, meeting.call, sorted(meeting.unknown), scene.book.older)
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
        inferred=meeting.table.inferred,
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
        says=with_partings(scene.book, words.stuck_together(meeting.ranks, meeting.call), parted),
        call=meeting.call,
        culprits=culprits,
        waiting=waiting,
        affected=scene.reaching(set(meeting.ranks), culprits),
        by_history=True,
        missed=refer(scene.book.tables[parted[0].theirs.table], parted[0].theirs.call),
        site=site_of(parted[0].own.call),
        waiting_site=next((site for site in sites if site is not None), None),
        quotes=quotes,
        sources=sources(quotes),
        inferred=meeting.table.inferred,
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
            inferred=meeting.table.inferred,
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
        inferred=meeting.table.inferred,
    )

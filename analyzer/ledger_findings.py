"""From the wait graph to findings: what became of the calls, and through whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer import ledger_words as words
from whyhang.analyzer.graph import CallRef, Cycle, Root, Wait
from whyhang.analyzer.ledger_book import Book, Table
from whyhang.analyzer.ledger_heads import Head, Heads, refer, site_of
from whyhang.analyzer.ledger_history import (
    earlier,
    history_of,
    left_loop,
    off_habit,
    shift,
)
from whyhang.analyzer.ledger_meet import Meeting
from whyhang.analyzer.ledger_p2p import Pairing, wrong_peers
from whyhang.analyzer.ledger_records import Finding, Side, Verdict
from whyhang.analyzer.model import Frame, Record, Source, replace

MAX_STUDIED = 4
"""Culprits of one call whose whole recorder is read for a skipped call."""

MAX_SPLITS = 8
"""Mismatches that are told; more are of the same kind."""


class Scene(Record):
    """All that findings are made of."""

    book: Book
    heads: Heads
    meetings: tuple[Meeting, ...]
    pairings: tuple[Pairing, ...]
    waits: tuple[Wait, ...]
    roots: tuple[Root, ...]
    cycles: tuple[Cycle, ...]

    def meeting_of(self, rank: int) -> Meeting | None:
        """Find the collective that a rank stands in."""
        for head in self.heads.of.get(rank, ()):
            for meeting in self.meetings:
                if meeting.number == head.table and meeting.seq == head.call.seq:
                    return meeting
        return None


def find(scene: Scene) -> tuple[Finding, ...]:
    """Make all findings, causes first, those that hold up most ranks before others."""
    if not scene.heads.of:
        return _all_completed(scene)
    found = list(_mismatches(scene))
    explained = {rank for finding in found for rank in finding.culprits}
    split = {(m.number, m.seq) for m in scene.meetings if m.split is not None}
    open_cycles = [
        cycle
        for cycle in scene.cycles
        if not _of_split(scene, cycle, split) and not cycle.members & explained
    ]
    pairs = _unpaired(scene, open_cycles, explained)
    if pairs is not None:
        found.append(pairs)
        explained.update(pairs.culprits, pairs.waiting)
    found += _unclosed(scene)
    found += [_deadlock(scene, c) for c in open_cycles if not c.members & explained]
    found += _ends(scene, explained, split)
    if any(finding.culprits for finding in found):
        # Whoever left no record may well wait for those who are known to hold others up.
        found = [replace(f, cause=f.verdict is not Verdict.WAITS_FOR_ABSENT) for f in found]
    return tuple(sorted(found, key=lambda f: (not f.cause, not f.culprits, -len(f.affected))))


def _all_completed(scene: Scene) -> tuple[Finding, ...]:
    if not scene.book.tables:
        return ()
    sources = _sources(scene, sorted(scene.book.present)[:3])
    verdict = Verdict.ALL_COMPLETED
    says = words.all_completed(sorted(scene.book.present))
    return (Finding(verdict=verdict, says=says, sources=sources),)


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
        elif (meeting.number, meeting.seq) not in split:
            stuck[meeting.number, meeting.seq].append(root)
    found = _late(scene, [root for root in late if root.direct])
    if found is not None:
        yield found
    at = {(meeting.number, meeting.seq): meeting for meeting in scene.meetings}
    yield from (_stuck(scene, at[key], roots) for key, roots in stuck.items())
    if pairs:
        yield from _stuck_pairs(scene, pairs)


def _late(scene: Scene, roots: Sequence[Root]) -> Finding | None:
    """Make one finding of all ranks that others wait for and that wait for no rank."""
    best: dict[int, Meeting] = {}
    wanted = {root.member for root in roots}
    for meeting in sorted(scene.meetings, key=lambda m: len(m.inside)):
        best.update(dict.fromkeys(wanted & meeting.missing, meeting))
    parts: dict[tuple[int, int], list[Root]] = defaultdict(list)
    for root in roots:
        where = best.get(root.member) or scene.meeting_of(root.member)
        parts[(where.number, where.seq) if where is not None else (-1, root.member)].append(root)
    at = {(meeting.number, meeting.seq): meeting for meeting in scene.meetings}
    found = [
        finding
        for key, members in parts.items()
        if (finding := _late_part(scene, at.get(key), members)) is not None
    ]
    if not found:
        return None
    found.sort(key=lambda f: (f.verdict is Verdict.STALLED, -len(f.waiting)))
    if len(found) == 1:
        return found[0]
    first = found[0]
    return replace(
        first,
        says=words.several([part.says for part in found]),
        culprits=_merged(part.culprits for part in found),
        affected=_merged(part.affected for part in found),
        sources=tuple(dict.fromkeys(source for part in found for source in part.sources)),
        parts=tuple(found),
    )


def _late_part(scene: Scene, meeting: Meeting | None, roots: Sequence[Root]) -> Finding | None:
    """Judge the ranks that hold up one call."""
    culprits = tuple(sorted(root.member for root in roots))
    affected = _merged(root.blocks for root in roots)
    spot = scene.heads.spots.get(culprits[0])
    if meeting is None:
        return _late_for_pair(scene, culprits, affected)
    waiting = tuple(rank for rank in meeting.ranks if rank not in culprits)
    stalled = not set(culprits) & meeting.missing
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
        waiting_site=_site(meeting.inside),
        sources=_sources(scene, (*culprits[:3], *waiting[:2])),
        inferred=meeting.table.inferred,
    )
    return base if stalled else _with_history(base, meeting, waiting)


def _late_for_pair(
    scene: Scene, culprits: tuple[int, ...], affected: tuple[int, ...]
) -> Finding | None:
    """Judge a rank that holds up a send or a receive."""
    wanted = [p for p in scene.pairings if p.peer in culprits and not p.answered]
    if not wanted:
        return None
    spot = scene.heads.spots.get(culprits[0])
    waiting = tuple(sorted({p.head.rank for p in wanted}))
    call = _refer(scene, wanted[0])
    return Finding(
        verdict=Verdict.NEVER_JOINED,
        says=words.never_answered(culprits, call, waiting, spot),
        call=call,
        culprits=culprits,
        waiting=waiting,
        affected=affected,
        missed=spot.call if spot is not None else None,
        site=spot.site if spot is not None else None,
        waiting_site=site_of(wanted[0].call),
        sources=_sources(scene, (*culprits[:3], *waiting[:2])),
    )


def _with_history(base: Finding, meeting: Meeting, waiting: tuple[int, ...]) -> Finding:
    """Find out whether the ranks are behind because they left a call out before."""
    if not waiting:
        return base
    usual = history_of(meeting.table.standings[waiting[0]])
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


def _mismatches(scene: Scene) -> Iterable[Finding]:
    split = [meeting for meeting in scene.meetings if meeting.split is not None]
    split.sort(key=lambda meeting: -len(meeting.inside))
    blocked = {wait.waiter: wait for wait in scene.waits}
    for meeting in split[:MAX_SPLITS]:
        finding = _mismatch(scene, meeting)
        if finding is not None and blocked:
            yield finding


def _mismatch(scene: Scene, meeting: Meeting) -> Finding | None:
    """Judge ranks that met in different calls."""
    split = meeting.split
    if split is None:
        return None
    standings = meeting.table.standings
    sides = tuple(
        Side(
            says=camp.says,
            ranks=camp.ranks,
            call=refer(meeting.table, standings[camp.ranks[0]].calls[meeting.seq]),
            site=site_of(standings[camp.ranks[0]].calls[meeting.seq]),
            source=standings[camp.ranks[0]].source,
        )
        for camp in split.camps
    )
    culprits, by_history = split.minority, False
    if split.tie:
        culprits = _off_habit(meeting, sides)
        by_history = bool(culprits)
    first = next((side for side in sides if set(side.ranks) & set(culprits)), sides[-1])
    waiting = tuple(rank for rank in meeting.ranks if rank not in culprits)
    finding = Finding(
        verdict=Verdict.MISMATCH,
        says=words.mismatch(meeting.call, split.field, sides, culprits),
        call=meeting.call,
        culprits=culprits,
        waiting=waiting,
        affected=_reaching(scene, {head.rank for head in meeting.inside}, culprits),
        field=split.field,
        sides=sides,
        tie=split.tie and not by_history,
        by_history=by_history,
        site=first.site,
        waiting_site=sides[0].site,
        sources=_sources(scene, [side.ranks[0] for side in sides]),
        inferred=meeting.table.inferred,
    )
    return _mismatch_with_history(finding, meeting, sides, first) if culprits else finding


def _off_habit(meeting: Meeting, sides: Sequence[Side]) -> tuple[int, ...]:
    """Of equally many ranks, find those whose step to this call is new to them."""
    left: list[Side] = []
    for side in sides:
        history = history_of(meeting.table.standings[side.ranks[0]])
        odd = off_habit(earlier(history, meeting.seq), history[meeting.seq])
        if odd is None:
            return ()
        if odd:
            left.append(side)
    return left[0].ranks if len(left) == 1 else ()


def _mismatch_with_history(
    finding: Finding, meeting: Meeting, sides: Sequence[Side], odd: Side
) -> Finding:
    """Say whether the odd ranks left a call out, made one too many, or left the loop."""
    usual_side = next((side for side in sides if side is not odd), sides[0])
    standings = meeting.table.standings
    theirs = history_of(standings[odd.ranks[0]])
    usual = history_of(standings[usual_side.ranks[0]])
    if finding.field == "op" and left_loop(theirs, usual, meeting.seq):
        return replace(
            finding,
            verdict=Verdict.UNEVEN,
            says=words.left_loop(finding.culprits, odd, usual_side),
        )
    found = shift(theirs, usual)
    if found is None or found.seq > meeting.seq:
        return finding
    missed = refer(meeting.table, found.missed)
    return replace(
        finding,
        verdict=found.verdict,
        says=words.shifted(finding.culprits, found, missed, site_of(found.missed)),
        missed=missed,
    )


def _unpaired(scene: Scene, cycles: Sequence[Cycle], explained: set[int]) -> Finding | None:
    """Find sends and receives that do not pair, unless an idle rank is all there is to it."""
    lonely = [p for p in scene.pairings if not p.answered and p.told and not p.call.unclosed]
    if not lonely:
        return None
    culprits = tuple(r for r in wrong_peers(scene.book, scene.pairings) if r not in explained)
    caught = {rank for cycle in cycles for rank in cycle.members}
    shown = [p for p in lonely if p.head.rank in caught or p.head.rank in culprits]
    if not shown:
        return None
    ranks = {p.head.rank for p in shown} | {p.peer for p in shown}
    cycle = next((c for c in cycles if c.members & ranks), None)
    return Finding(
        verdict=Verdict.P2P_UNPAIRED,
        says=words.unpaired([(p.head.rank, _refer(scene, p), site_of(p.call)) for p in shown]),
        call=_refer(scene, shown[0]),
        culprits=culprits,
        waiting=tuple(sorted(ranks - set(culprits))),
        affected=_reaching(scene, ranks, culprits),
        site=next((site_of(p.call) for p in shown if p.head.rank in culprits), None),
        waiting_site=site_of(shown[0].call),
        sides=tuple(
            Side(
                says=f"{_refer(scene, p)}",
                ranks=(p.head.rank,),
                call=_refer(scene, p),
                site=site_of(p.call),
                source=p.head.source,
            )
            for p in shown[:4]
        ),
        cycle=cycle,
        sources=_sources(scene, sorted(ranks)[:4]),
    )


def _unclosed(scene: Scene) -> Iterable[Finding]:
    for rank, heads in scene.heads.of.items():
        head = heads[0]
        if not head.call.unclosed:
            continue
        call = refer(_table(scene, head), head.call)
        yield Finding(
            verdict=Verdict.COALESCED_OPEN,
            says=words.unclosed(rank, call, site_of(head.call)),
            call=call,
            culprits=(rank,),
            affected=_reaching(scene, {rank}, (rank,)),
            site=site_of(head.call),
            sources=_sources(scene, (rank,)),
        )


def _deadlock(scene: Scene, cycle: Cycle) -> Finding:
    """Judge ranks that wait only for each other, in calls of several groups."""
    culprits = _fewer_by_group(scene, cycle)
    links = cycle.chain
    return Finding(
        verdict=Verdict.CROSS_GROUP,
        says=words.deadlock(links),
        call=links[0].wait.call if links else None,
        culprits=culprits,
        waiting=tuple(sorted(cycle.members - set(culprits))),
        affected=tuple(sorted(cycle.members | cycle.blocks)),
        sides=tuple(
            Side(
                says=f"{link.wait.call}",
                ranks=(link.wait.waiter,),
                call=link.wait.call or CallRef(op=None, group=""),
                site=link.wait.site,
                source=link.wait.source,
            )
            for link in links
        ),
        site=links[0].wait.site if links else None,
        cycle=cycle,
        sources=_sources(scene, [link.wait.waiter for link in links]),
    )


def _fewer_by_group(scene: Scene, cycle: Cycle) -> tuple[int, ...]:
    """Name the ranks that entered two groups in the rarer order, among those who are in both."""
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
        if opposite and len(ranks) < len(opposite):
            culprits |= ranks
    return tuple(sorted(culprits))


def _of_split(scene: Scene, cycle: Cycle, split: set[tuple[int, int]]) -> bool:
    """Tell whether a cycle is nothing but ranks that met in different calls."""
    for link in cycle.chain:
        meeting = scene.meeting_of(link.wait.waiter)
        if meeting is not None and (meeting.number, meeting.seq) in split:
            return True
    return False


def _stuck(scene: Scene, meeting: Meeting, roots: Sequence[Root]) -> Finding:
    """Judge a call that all known members have joined, and none of them finished."""
    inside = tuple(sorted({*meeting.ranks, *meeting.queued}))
    alone = meeting.table.inferred and len(meeting.table.members) < 2
    waits = bool(meeting.unknown) or alone
    return Finding(
        verdict=Verdict.WAITS_FOR_ABSENT if waits else Verdict.STUCK_TOGETHER,
        says=words.waits_for_absent(inside, meeting.call, sorted(meeting.unknown))
        if waits
        else words.stuck_together(inside, meeting.call),
        call=meeting.call,
        waiting=inside,
        affected=_merged((inside, *(root.blocks for root in roots))),
        absent=tuple(sorted(meeting.unknown)),
        site=_site(meeting.inside),
        waiting_site=_site(meeting.inside),
        sources=_sources(scene, inside[:3]),
        inferred=meeting.table.inferred,
    )


def _stuck_pairs(scene: Scene, roots: Sequence[Root]) -> Iterable[Finding]:
    """Judge sends and receives that both sides have posted, or whose peer left no record."""
    by_rank: Mapping[int, list[Pairing]] = defaultdict(list)
    for pairing in scene.pairings:
        by_rank[pairing.head.rank].append(pairing)
    members = [root.member for root in roots if root.member in by_rank]
    if not members:
        return
    absent = {p.peer for rank in members for p in by_rank[rank] if not p.told}
    call = _refer(scene, by_rank[members[0]][0])
    yield Finding(
        verdict=Verdict.WAITS_FOR_ABSENT if absent else Verdict.STUCK_TOGETHER,
        says=words.waits_for_absent(members, call, sorted(absent))
        if absent
        else words.stuck_together(members, call),
        call=call,
        waiting=tuple(members),
        affected=_merged((members, *(root.blocks for root in roots))),
        absent=tuple(sorted(absent)),
        site=site_of(by_rank[members[0]][0].call),
        sources=_sources(scene, members[:3]),
    )


def _reaching(scene: Scene, ranks: set[int], culprits: tuple[int, ...]) -> tuple[int, ...]:
    """Give ``ranks`` and all who wait for them in the end, without the culprits."""
    found = set(ranks)
    for root in scene.roots:
        if root.member in ranks or root.member in culprits:
            found |= root.blocks
    for cycle in scene.cycles:
        if cycle.members & ranks:
            found |= cycle.members | cycle.blocks
    return tuple(sorted(found - set(culprits)))


def _merged(ranks: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(sorted({rank for some in ranks for rank in some}))


def _refer(scene: Scene, pairing: Pairing) -> CallRef:
    return refer(_table(scene, pairing.head), pairing.call)


def _table(scene: Scene, head: Head) -> Table | None:
    return scene.book.tables[head.table] if head.table >= 0 else None


def _site(heads: Sequence[Head]) -> Frame | None:
    return next((site for head in heads if (site := site_of(head.call)) is not None), None)


def _sources(scene: Scene, ranks: Iterable[int]) -> tuple[Source, ...]:
    """Cite the dumps of some ranks."""
    spots = (scene.heads.spots.get(rank) for rank in ranks)
    return tuple(dict.fromkeys(s.source for s in spots if s is not None and s.source is not None))

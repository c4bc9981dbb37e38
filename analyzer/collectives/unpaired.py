"""Findings about sends and receives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from whyhang.analyzer.collectives import words
from whyhang.analyzer.collectives.graph import Cycle, Root
from whyhang.analyzer.collectives.heads import site_of
from whyhang.analyzer.collectives.mates import MAX_RANKS, Apart, apart
from whyhang.analyzer.collectives.p2p import Pairing, deaf_to_sender, wrong_peers
from whyhang.analyzer.collectives.records import Finding, Side, Verdict
from whyhang.analyzer.collectives.routine import who_left
from whyhang.analyzer.collectives.scene import Scene, merged, sources, with_partings

MAX_SHOWN = 4


def unpaired(scene: Scene, cycles: Sequence[Cycle], explained: set[int]) -> Finding | None:
    """Find sends and receives that do not pair, unless an idle rank is all there is to it."""
    lonely = [p for p in scene.pairings if not p.answered and p.told and not p.call.unclosed]
    if not lonely:
        return None
    caught = {rank for cycle in cycles for rank in cycle.members}
    # Whole recorders are read for this, so only of ranks that may be the end of it; one that
    # has not come to a collective either is, and no peer of it is wrong.
    late = frozenset[int]().union(*(meeting.missing for meeting in scene.meetings))
    ends = caught | {root.member for root in scene.roots if root.member not in late}
    studied = caught | {rank for p in lonely if p.peer in ends for rank in (p.head.rank, p.peer)}
    wrong = wrong_peers(scene.job, scene.pairings, studied) or deaf_to_sender(
        scene.job, scene.pairings, caught
    )
    parted: tuple[Apart, ...] = ()
    if not wrong:
        lost = _lost(lonely, cycles)
        parted = apart(scene.job, lost)
        wrong = tuple(odd.rank for odd in parted) or who_left(scene.job, lost)
    culprits = tuple(r for r in wrong if r not in explained)
    shown = [p for p in lonely if p.head.rank in caught or p.head.rank in culprits]
    if not shown:
        return None
    shown.sort(key=lambda p: (p.head.rank not in culprits, p.head.rank))
    ranks = {p.head.rank for p in shown} | {p.peer for p in shown}
    quotes = scene.quotes([p.head.rank for p in shown[:MAX_SHOWN]])
    says = words.unpaired(
        [(p.head.rank, scene.call(p), p.call.tag, site_of(p.call)) for p in shown]
    )
    return Finding(
        verdict=Verdict.P2P_UNPAIRED,
        says=with_partings(scene.job, says, parted),
        call=scene.call(shown[0]),
        culprits=culprits,
        waiting=tuple(sorted(ranks - set(culprits))),
        affected=scene.reaching(ranks, culprits),
        site=next((site_of(p.call) for p in shown if p.head.rank in culprits), None),
        waiting_site=next((site_of(p.call) for p in shown if p.head.rank not in culprits), None),
        sides=tuple(
            Side(
                says=f"in {scene.call(pairing)}",
                ranks=(pairing.head.rank,),
                call=scene.call(pairing),
                site=site_of(pairing.call),
                source=pairing.head.source,
            )
            for pairing in shown[:MAX_SHOWN]
        ),
        cycle=next((cycle for cycle in cycles if cycle.members & ranks), None),
        quotes=quotes,
        sources=sources(quotes),
    )


def _lost(lonely: Sequence[Pairing], cycles: Sequence[Cycle]) -> tuple[int, ...]:
    """List who is part of an unanswered send or receive; of many, those on one way round."""
    caught = {rank for cycle in cycles for rank in cycle.members}
    ranks = {r for p in lonely if p.head.rank in caught for r in (p.head.rank, p.peer)}
    if len(ranks) > MAX_RANKS:
        ranks = {link.wait.waiter for cycle in cycles[:1] for link in cycle.chain}
    return tuple(sorted(ranks))


def unanswered(
    scene: Scene, culprits: tuple[int, ...], affected: tuple[int, ...]
) -> Finding | None:
    """Judge ranks that wait for nobody, and do not answer a send or a receive."""
    wanted = [p for p in scene.pairings if p.peer in culprits and not p.answered]
    if not wanted:
        return None
    spot = scene.heads.spots.get(culprits[0])
    waiting = tuple(sorted({p.head.rank for p in wanted}))
    call = scene.call(wanted[0])
    quotes = scene.quotes((*culprits[:3], *waiting[:2]))
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
        quotes=quotes,
        sources=sources(quotes),
    )


def stuck_pairs(scene: Scene, roots: Sequence[Root]) -> Iterable[Finding]:
    """Judge sends and receives that both sides have posted, or whose peer left no record."""
    by_rank: dict[int, list[Pairing]] = defaultdict(list)
    for pairing in scene.pairings:
        by_rank[pairing.head.rank].append(pairing)
    members = [root.member for root in roots if root.member in by_rank]
    if not members:
        return
    absent = sorted({p.peer for rank in members for p in by_rank[rank] if not p.told})
    first = by_rank[members[0]][0]
    call = scene.call(first)
    quotes = scene.quotes(members[:3])
    yield Finding(
        verdict=Verdict.WAITS_FOR_ABSENT if absent else Verdict.STUCK_TOGETHER,
        says=words.waits_for_absent(members, call, absent)
        if absent
        else words.stuck_together(members, call),
        call=call,
        waiting=tuple(members),
        affected=merged((members, *(root.blocks for root in roots))),
        absent=tuple(absent),
        site=site_of(first.call),
        quotes=quotes,
        sources=sources(quotes),
    )

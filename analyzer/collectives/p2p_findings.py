"""Findings about sends and receives."""

from collections.abc import Collection, Iterable, Sequence

from whyhang.analyzer.collectives import call_words
from whyhang.analyzer.collectives.call_finding import CallFinding, Side, Verdict
from whyhang.analyzer.collectives.call_graph import CallGraph, merged
from whyhang.analyzer.collectives.divergence import MAX_RANKS, Divergence, divergences, left_routine
from whyhang.analyzer.collectives.p2p import PendingP2P, receives_from_wrong_peer, wrong_peers
from whyhang.analyzer.collectives.waits import Cycle, Root
from whyhang.analyzer.facts import grouped

MAX_SHOWN = 4


def unpaired(
    graph: CallGraph, cycles: Sequence[Cycle], explained: Collection[int]
) -> CallFinding | None:
    """Find sends and receives that do not pair, unless an idle rank is all there is to it."""
    unmatched = [p for p in graph.p2p if not p.matched and p.peer_known and not p.call.unclosed]
    if not unmatched:
        return None
    caught = {rank for cycle in cycles for rank in cycle.members}
    culprits, diverged = _culprits(graph, unmatched, cycles)
    culprits = tuple(rank for rank in culprits if rank not in explained)
    shown = [p for p in unmatched if p.rank in caught or p.rank in culprits]
    if not shown:
        return None
    shown.sort(key=lambda p: (p.rank not in culprits, p.rank))
    ranks = {p.rank for p in shown} | {p.peer for p in shown}
    says = call_words.unpaired(shown)
    return CallFinding(
        verdict=Verdict.P2P_UNPAIRED,
        says=call_words.with_divergences(says, diverged),
        call=shown[0].ref,
        culprits=culprits,
        waiting=tuple(sorted(ranks.difference(culprits))),
        affected=graph.reaching(ranks, culprits),
        site=next((p.site for p in shown if p.rank in culprits), None),
        sides=tuple(
            Side(says=f"in {p.ref}", ranks=(p.rank,), call=p.ref, site=p.site, source=p.source)
            for p in shown[:MAX_SHOWN]
        ),
        cycle=next((cycle for cycle in cycles if cycle.members & ranks), None),
        quotes=graph.quotes([p.rank for p in shown[:MAX_SHOWN]]),
    )


def _culprits(
    graph: CallGraph, unmatched: Sequence[PendingP2P], cycles: Sequence[Cycle]
) -> tuple[tuple[int, ...], tuple[Divergence, ...]]:
    """Find who got the peer wrong, or who diverged before."""
    caught = {rank for cycle in cycles for rank in cycle.members}
    # Whole recorders are read for this, so only of ranks that may be the end of it; one that
    # has not come to a collective either is, and no peer of it is wrong.
    late = frozenset[int]().union(*(each.missing for each in graph.collectives.values()))
    ends = caught | {root.member for root in graph.roots if root.member not in late}
    studied = caught | {rank for p in unmatched if p.peer in ends for rank in (p.rank, p.peer)}
    wrong = wrong_peers(graph.job, graph.p2p, studied) or receives_from_wrong_peer(
        graph.job, graph.p2p, caught
    )
    if wrong:
        return wrong, ()
    ranks = {rank for p in unmatched if p.rank in caught for rank in (p.rank, p.peer)}
    if len(ranks) > MAX_RANKS:
        ranks = {link.wait.waiter for cycle in cycles[:1] for link in cycle.chain}
    compared = tuple(sorted(ranks))
    diverged = divergences(graph.job, compared)
    return tuple(d.rank for d in diverged) or left_routine(graph.job, compared), diverged


def not_answered(
    graph: CallGraph, culprits: tuple[int, ...], affected: tuple[int, ...]
) -> CallFinding | None:
    """Return the finding on ranks that wait for nobody, and answer no send or receive."""
    wanted = [p for p in graph.p2p if p.peer in culprits and not p.matched]
    if not wanted:
        return None
    position = graph.positions.get(culprits[0])
    waiting = tuple(sorted({p.rank for p in wanted}))
    return CallFinding(
        verdict=Verdict.NEVER_JOINED,
        says=call_words.never_answered(culprits, wanted[0].ref, waiting, position),
        call=wanted[0].ref,
        culprits=culprits,
        waiting=waiting,
        affected=affected,
        missed=position.call if position is not None else None,
        site=position.site if position is not None else None,
        quotes=graph.quotes((*culprits[:3], *waiting[:2])),
    )


def stuck_p2p(graph: CallGraph, roots: Sequence[Root]) -> CallFinding | None:
    """Return the finding on calls that both sides have posted, or whose peer left no record."""
    by_rank = grouped(graph.p2p, lambda each: each.rank)
    members = [root.member for root in roots if root.member in by_rank]
    if not members:
        return None
    absent = sorted({p.peer for rank in members for p in by_rank[rank] if not p.peer_known})
    first = by_rank[members[0]][0]
    return CallFinding(
        verdict=Verdict.WAITS_FOR_ABSENT if absent else Verdict.ALL_ARRIVED,
        says=call_words.waits_for_absent(members, first.ref, absent)
        if absent
        else call_words.all_arrived(members, first.ref),
        call=first.ref,
        waiting=tuple(members),
        affected=merged((members, *(root.blocks for root in roots))),
        absent=tuple(absent),
        site=first.site,
        quotes=graph.quotes(members[:3]),
    )


def unclosed(graph: CallGraph) -> Iterable[CallFinding]:
    """Yield a finding for each rank that opened a coalesced block and did not close it."""
    for rank, calls in graph.pending.items():
        pending = calls[0]
        if pending.call.unclosed:
            peers = {p.peer for p in graph.p2p if p.pending is pending}
            yield CallFinding(
                verdict=Verdict.COALESCED_OPEN,
                says=call_words.unclosed(pending),
                call=pending.ref,
                culprits=(rank,),
                waiting=tuple(sorted(peers - {rank})),
                affected=graph.reaching({rank}, (rank,)),
                site=pending.site,
                quotes=graph.quotes((rank,)),
            )

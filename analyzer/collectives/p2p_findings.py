"""Findings about sends and receives."""

from collections.abc import Collection, Iterable, Sequence

from whyhang.analyzer.collectives import call_words
from whyhang.analyzer.collectives.call_finding import CallFinding, Side, Verdict
from whyhang.analyzer.collectives.call_graph import CallGraph
from whyhang.analyzer.collectives.divergence import MAX_RANKS, Divergence, divergences, left_routine
from whyhang.analyzer.collectives.p2p import PendingP2P, receives_from_wrong_peer, wrong_peers
from whyhang.analyzer.collectives.shared_calls import SharedCall
from whyhang.analyzer.collectives.waits import Cycle

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
    tagged = any(p.call.tag for p in shown)
    listed = "; ".join(
        f"rank {p.rank} is in {p.ref}{f' with tag {p.call.tag}' if tagged else ''}"
        f"{call_words.at(p.site)}"
        for p in shown[:MAX_SHOWN]
    )
    return CallFinding(
        verdict=Verdict.P2P_UNPAIRED,
        says=call_words.with_divergences(f"Sends and receives do not pair: {listed}", diverged),
        call=shown[0].ref,
        culprits=culprits,
        waiting=tuple(sorted(ranks.difference(culprits))),
        affected=graph.reaching(ranks, culprits),
        site=next((p.site for p in shown if p.rank in culprits), None),
        sides=tuple(
            Side(says=f"in {p.ref}", ranks=(p.rank,), site=p.site) for p in shown[:MAX_SHOWN]
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


def in_p2p(p2p: Iterable[PendingP2P]) -> SharedCall | None:
    """Take sends and receives that stand for one reason as one call, named after the first."""
    every = tuple(p2p)
    if not every:
        return None
    absent = frozenset(p.peer for p in every if not p.peer_known)
    return SharedCall(call=every[0].ref, inside=every, unknown=absent)


def unclosed(graph: CallGraph) -> Iterable[CallFinding]:
    """Yield a finding for each rank that opened a coalesced block and did not close it."""
    for rank, calls in graph.pending.items():
        pending = calls[0]
        if pending.call.unclosed:
            peers = {p.peer for p in graph.p2p if p.launched[0] is pending.call}
            yield CallFinding(
                verdict=Verdict.COALESCED_OPEN,
                says=f"Rank {rank} opened a coalesced block with {pending.ref}"
                f"{call_words.at(pending.site)} and never closed it",
                call=pending.ref,
                culprits=(rank,),
                waiting=tuple(sorted(peers - {rank})),
                affected=graph.reaching({rank}, (rank,)),
                site=pending.site,
                quotes=graph.quotes((rank,)),
            )

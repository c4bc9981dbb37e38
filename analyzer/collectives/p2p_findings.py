"""Findings about sends and receives: which do not pair, and who got the peer wrong."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from whyhang.analyzer.collectives import call_words
from whyhang.analyzer.collectives.call_finding import CallFinding, Side, Verdict
from whyhang.analyzer.collectives.call_graph import CallGraph
from whyhang.analyzer.collectives.groups import JobCalls
from whyhang.analyzer.collectives.routine import MAX_RANKS, Departure, departures
from whyhang.analyzer.collectives.shared_calls import PendingP2P, SharedCall
from whyhang.analyzer.collectives.waits import Cycle
from whyhang.analyzer.facts import Call, CallState, grouped

MAX_SHOWN = 4

MAX_STUDIED = 16
"""Ranks whose whole recorder is read for the peers that they used to have."""


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
        quotes=graph.quotes([p.rank for p in shown[:MAX_SHOWN]]),
    )


def _culprits(
    graph: CallGraph, unmatched: Sequence[PendingP2P], cycles: Sequence[Cycle]
) -> tuple[tuple[int, ...], tuple[Departure, ...]]:
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
    diverged = departures(graph.job, tuple(sorted(ranks)))
    return tuple(each.rank for each in diverged), diverged


def as_one_call(p2p: Iterable[PendingP2P]) -> SharedCall | None:
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


def wrong_peers(
    job: JobCalls, p2p: Sequence[PendingP2P], within: Collection[int]
) -> tuple[int, ...]:
    """Find ranks that talk to another rank than they used to, or than is waiting.

    A rank that left its own habit at this line of code is wrong. Else a rank is that sends to
    one who listens to another, who listens to another (and so on) who listens to it. Only
    records of ranks ``within`` are read for it.
    """
    unmatched = [each for each in p2p if not each.matched and each.peer_known]
    concerned = {each.rank for each in unmatched} | {each.peer for each in unmatched}
    studied = sorted(concerned.intersection(within))[:MAX_STUDIED]
    changed = {rank for rank in studied if changed_peer(job, rank)}
    if changed:
        return tuple(sorted(changed))
    listens_to = {each.rank: each.peer for each in unmatched if each.call.op == "recv"}
    wrong = {
        each.rank
        for each in unmatched
        if each.call.op == "send"
        and each.rank in _followed(listens_to, each.peer)
        and not _used_before(job, each)
    }
    return tuple(wrong) if len(wrong) == 1 else ()


def receives_from_wrong_peer(
    job: JobCalls, p2p: Iterable[PendingP2P], caught: Collection[int]
) -> tuple[int, ...]:
    """Find the one rank that listens to who does not send, while another sends to it in vain.

    Only among ranks that wait for each other in a circle (``caught``): else its sender may just
    be late, and the other is next in turn.
    """
    unmatched = [p for p in p2p if not p.matched and p.peer_known and p.rank in caught]
    senders = {each.peer: each.rank for each in unmatched if each.call.op == "send"}
    wrong = {
        each.rank
        for each in unmatched
        if each.call.op == "recv"
        and each.peer not in senders.values()
        and senders.get(each.rank, each.peer) != each.peer
        and not _used_before(job, each)
    }
    return tuple(wrong) if len(wrong) == 1 else ()


def changed_peer(job: JobCalls, rank: int) -> bool:
    """Return whether a rank named, at a line of its code, a peer that it never names there.

    It is the call that holds the rank up, or its last: that may even have been answered, by a
    receive that was meant for another.
    """
    for calls in _p2p_of_rank(job, rank):
        known = (call for call in calls if call.frames)
        for alike in grouped(known, lambda call: (call.op, call.frames)).values():
            first = next((c for c in alike if c.state is not CallState.COMPLETED), None)
            for last in (first, alike[-1]):
                usual = {call.peer for call in alike if call is not last}
                if last is not None and len(usual) == 1 and last.peer not in usual:
                    return True
    return False


def _followed(listens_to: Mapping[int, int], rank: int) -> set[int]:
    """List whom a rank listens to, and whom that one listens to, and so on."""
    followed: set[int] = set()
    while rank in listens_to and listens_to[rank] not in followed:
        rank = listens_to[rank]
        followed.add(rank)
    return followed


def _p2p_of_rank(job: JobCalls, rank: int) -> Iterable[tuple[Call, ...]]:
    """Yield the sends and receives of a rank on each group where one is pending."""
    for group in job.groups:
        progress = group.progress.get(rank)
        if progress is not None and progress.p2p:
            yield progress.sends_and_receives()


def _used_before(job: JobCalls, p2p: PendingP2P) -> bool:
    """Return whether a rank has had such a call with this peer before: then it is no wrong one."""
    return any(
        (call.op, call.peer, call.state) == (p2p.call.op, p2p.peer, CallState.COMPLETED)
        for calls in _p2p_of_rank(job, p2p.rank)
        for call in calls
    )

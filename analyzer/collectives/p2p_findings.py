"""Findings about sends and receives: which do not pair, and who got the peer wrong."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from whyhang.analyzer.collectives import call_words
from whyhang.analyzer.collectives.call_finding import CallFinding, Verdict
from whyhang.analyzer.collectives.call_graph import CallGraph
from whyhang.analyzer.collectives.groups import JobCalls
from whyhang.analyzer.collectives.mismatch import Side
from whyhang.analyzer.collectives.routine import MAX_RANKS, Departure, departures
from whyhang.analyzer.collectives.shared_calls import PendingP2P, SharedCall
from whyhang.analyzer.collectives.waits import Cycle, followed
from whyhang.analyzer.facts import CallState

MAX_SHOWN = 4

_UNPAIRED = "Sends and receives do not pair"


def unpaired(
    graph: CallGraph, cycles: Sequence[Cycle], explained: Collection[int]
) -> Iterator[CallFinding]:
    """Yield the sends and receives that do not pair, unless an idle rank is all there is to it."""
    unmatched = [p for p in graph.p2p if not p.matched and p.peer_known and not p.call.unclosed]
    if not unmatched:
        return
    caught = {rank for cycle in cycles for rank in cycle.members}
    culprits, diverged = _culprits(graph, unmatched, cycles)
    culprits = tuple(rank for rank in culprits if rank not in explained)
    shown = [p for p in unmatched if p.rank in caught or p.rank in culprits]
    if not shown:
        return
    shown.sort(key=lambda p: (p.rank not in culprits, p.rank))
    ranks = {p.rank for p in shown} | {p.peer for p in shown}
    tagged = any(p.call.tag for p in shown)
    listed = "; ".join(
        f"rank {p.rank} is in {p.ref}{_in_a_collective(graph, p.peer)}"
        f"{f' with tag {p.call.tag}' if tagged else ''}{call_words.at(p.site)}"
        for p in shown[:MAX_SHOWN]
    )
    beside = not culprits and all(_in_a_collective(graph, p.peer) for p in shown)
    if beside and cycles and all(cycle.certain for cycle in cycles):
        return  # the circle says more
    what = "Ranks wait for each other, in messages and collectives" if beside else _UNPAIRED
    for rank in set(culprits).difference(p.rank for p in shown):
        calls = graph.pending.get(rank, ())
        listed += f"; rank {rank} is in {calls[0].ref}" if calls else f"; rank {rank} is in neither"
    yield CallFinding(
        verdict=Verdict.P2P_UNPAIRED,
        says=call_words.with_divergences(f"{what}: {listed}", diverged),
        call=shown[0].ref,
        culprits=culprits,
        waiting=tuple(sorted(ranks.difference(culprits))),
        affected=graph.reaching(ranks, culprits),
        site=next((call.site for rank in culprits for call in graph.pending.get(rank, ())), None),
        sides=tuple(
            Side(says=f"in {p.ref}", ranks=(p.rank,), site=p.site) for p in shown[:MAX_SHOWN]
        ),
        quotes=graph.quotes([p.rank for p in shown[:MAX_SHOWN]]),
    )


def _in_a_collective(graph: CallGraph, rank: int) -> str:
    """Say in which collective the partner of a message stands; empty where it is in none."""
    calls = graph.pending.get(rank, ())
    return "" if not calls or calls[0].call.p2p else f" (itself in {calls[0].ref})"


def _culprits(
    graph: CallGraph, unmatched: Sequence[PendingP2P], cycles: Sequence[Cycle]
) -> tuple[tuple[int, ...], tuple[Departure, ...]]:
    """Find who got the peer wrong, or who diverged before."""
    caught = {rank for cycle in cycles for rank in cycle.members}
    wrong = wrong_peers(graph.job, graph.p2p, caught)
    if wrong:
        return wrong, ()
    ranks = {rank for p in unmatched if p.rank in caught for rank in (p.rank, p.peer)}
    if len(ranks) > MAX_RANKS:
        ranks = {link.wait.waiter for cycle in cycles[:1] for link in cycle.chain}
    diverged = departures(graph.job, tuple(sorted(ranks)))
    return tuple(each.rank for each in diverged) or _awaited_by_all(graph, caught), diverged


def _awaited_by_all(graph: CallGraph, caught: Collection[int]) -> tuple[int, ...]:
    """Return the one rank in a collective to whom the sends, or the receives, of all others lead.

    Where some send and some receive, one of them may have the wrong peer.
    """
    unmatched = [p for p in graph.p2p if not p.matched and p.peer_known]
    peers = {p.rank: p.peer for p in unmatched}
    apart = tuple(rank for rank in caught if rank not in peers)
    if len(apart) != 1 or len(peers) < 2 or len({p.call.op for p in unmatched}) > 1:
        return ()
    return apart if all(apart[0] in followed(rank, peers) for rank in peers) else ()


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
    job: JobCalls, p2p: Iterable[PendingP2P], caught: Collection[int]
) -> tuple[int, ...]:
    """Find the one rank that talks to another rank than is waiting for it.

    It sends to one who listens to another, who listens to another (and so on) who listens to it;
    not where a second one sends to the same rank, which may be what has the wrong peer.
    Or it listens to who does not send, while another sends to it in vain: only among ranks that
    wait for each other in a circle (``caught``), else its sender may just be late, and the other
    is next in turn.
    """
    unmatched = [p for p in p2p if not p.matched and p.peer_known]
    listens_to = {p.rank: p.peer for p in unmatched if p.call.op == "recv"}
    senders = {p.peer: p.rank for p in unmatched if p.call.op == "send" and p.rank in caught}
    sent_to = Counter(p.peer for p in unmatched if p.call.op == "send")
    sends = [
        p
        for p in unmatched
        if p.call.op == "send"
        and sent_to[p.peer] == 1
        and listens_to.get(p.peer) != p.rank  # those two differ in something else, as the tag
        and p.rank in followed(p.peer, listens_to)
    ]
    listens = [
        p
        for p in unmatched
        if p.call.op == "recv"
        and p.rank in caught
        and p.peer not in senders.values()
        and senders.get(p.rank, p.peer) != p.peer
    ]
    wrong = ({p.rank for p in some if not _used_before(job, p)} for some in (sends, listens))
    return next((tuple(ranks) for ranks in wrong if len(ranks) == 1), ())


def _used_before(job: JobCalls, p2p: PendingP2P) -> bool:
    """Return whether a rank has had such a call with this peer before: then it is no wrong one."""
    return any(
        (call.op, call.peer, call.state) == (p2p.call.op, p2p.peer, CallState.COMPLETED)
        for group in job.groups
        if (progress := group.progress.get(p2p.rank)) is not None and progress.p2p
        for call in progress.all_calls()
        if call.p2p
    )

"""Sends and receives: which of them pair, and who got the peer wrong.

A send waits until its peer has posted the receive, a receive until the send. Numbers of such
calls count on each rank alone, so pairs are found by peer and order: the first unfinished send
to a rank goes with the first unfinished receive of that rank from here.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from whyhang.analyzer.collectives.groups import JobCalls
from whyhang.analyzer.collectives.pending import IssuedCall, Pending
from whyhang.analyzer.collectives.sequences import p2p_of
from whyhang.analyzer.collectives.shared_calls import SharedCall
from whyhang.analyzer.facts import Call, CallState, Frame, grouped, replace

MAX_STUDIED = 16
"""Ranks whose whole recorder is read for the peers that they used to have."""

Stack = tuple[str, tuple[Frame, ...]]
"""What is called from where. Frameworks send forward and backward below one line of the user's."""

_COUNTERPART = {"send": "recv", "recv": "send"}

_Tags = Mapping[tuple[int, str, int | None], Collection[int | None]]
"""The tags (None: not known) of sends and receives by rank, operation and peer."""


class PendingP2P(IssuedCall):
    """One send or receive that holds a rank up, and how its peer answers it.

    ``matched``: the peer has posted the counterpart; ``peer_inside``: it is in it, too.
    ``peer_known``: it is known where the peer stands.
    """

    peer: int = -1
    matched: bool = False
    peer_inside: bool = False
    peer_known: bool = False


def pending_p2p(job: JobCalls, pending: Pending, known: Collection[int]) -> tuple[PendingP2P, ...]:
    """Hold every send and receive that a rank is in against its peer.

    ``known`` are the ranks of which it is known where they stand.
    """
    every = [each for calls in pending.values() for each in calls]
    inside = [(each.rank, call) for each in every for call in each.launched]
    posted = [
        (rank, call)
        for group in job.groups
        for rank, progress in group.progress.items()
        for call in progress.p2p
        if not call.unclosed and call.state is not CallState.COMPLETED
    ]
    posted += [(each.rank, each.call) for each in every if each.group is None]
    posted_tags, inside_tags = _tags(posted), _tags(inside)
    p2p = [
        PendingP2P(
            rank=each.rank,
            group=each.group,
            call=call,
            source=each.source,
            batch=each.batch,
            peer=call.peer,
            matched=_answers(posted_tags, each.rank, call),
            peer_inside=_answers(inside_tags, each.rank, call),
            peer_known=call.peer in known,
        )
        for each in every
        for call in each.launched
        if call.p2p and call.peer is not None and call.op in _COUNTERPART
    ]
    # What was launched together ends together: who answers one call of such a batch and
    # is alone in another does not come through.
    held = {p.rank for p in p2p if len(p.batch) > 1 and p.peer_known and not p.matched}
    return tuple(replace(p, peer_inside=p.peer_inside and p.peer not in held) for p in p2p)


def with_peers(p2p: Iterable[PendingP2P]) -> Iterable[SharedCall]:
    """Yield for each rank in a send or receive who of its peers has to do something."""
    for own in grouped(p2p, lambda each: each.rank).values():
        # who opened a block and did not close it waits for no one but itself
        launched = [] if own[0].launched[0].unclosed else own
        shown = next((p for p in own if not p.matched), own[0])
        yield SharedCall(
            call=shown.ref,
            inside=(shown,),
            missing=frozenset(p.peer for p in launched if not p.matched and p.peer_known),
            queued=frozenset(p.peer for p in launched if p.matched and not p.peer_inside),
            unknown=frozenset(p.peer for p in launched if not p.peer_known),
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


def _tags(calls: Iterable[tuple[int, Call]]) -> _Tags:
    tags: dict[tuple[int, str, int | None], set[int | None]] = defaultdict(set)
    for rank, call in calls:
        if call.p2p:
            tags[rank, call.op, call.peer].add(call.tag)
    return tags


def _answers(tags: _Tags, rank: int, call: Call) -> bool:
    """Return whether the peer of a call is among these with its counterpart."""
    theirs = tags.get((call.peer or 0, _COUNTERPART[call.op], rank), ())
    return bool(theirs) and (call.tag is None or None in theirs or call.tag in theirs)


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
            yield p2p_of(progress)


def _used_before(job: JobCalls, p2p: PendingP2P) -> bool:
    """Return whether a rank has had such a call with this peer before: then it is no wrong one."""
    return any(
        (call.op, call.peer, call.state) == (p2p.call.op, p2p.peer, CallState.COMPLETED)
        for calls in _p2p_of_rank(job, p2p.rank)
        for call in calls
    )

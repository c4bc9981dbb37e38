"""Sends and receives: which of them pair, and who got the peer wrong.

A send waits until its peer has posted the receive, a receive until the send. Numbers of such
calls count on each rank alone, so pairs are found by peer and order: the first unfinished send
to a rank goes with the first unfinished receive of that rank from here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer.collectives.graph import Wait
from whyhang.analyzer.collectives.groups import JobCalls
from whyhang.analyzer.collectives.heads import Head, Heads, refer, site_of
from whyhang.analyzer.collectives.history import order_of
from whyhang.analyzer.facts import Call, CallState, Frame, Record, replace

MAX_STUDIED = 16
"""Ranks whose whole recorder is read for the peers that they used to have."""

Stack = tuple[str, tuple[Frame, ...]]
"""What is called from where. Frameworks send forward and backward below one line of the user's."""

_COUNTERPART = {"send": "recv", "recv": "send"}


class Pairing(Record):
    """One send or receive that holds ``head.rank`` up, and how its peer answers it.

    ``answered``: the peer has posted the counterpart; ``ready``: it stands in it, too.
    ``told``: there is a record of the peer at all.
    """

    head: Head
    call: Call
    peer: int
    answered: bool
    ready: bool
    told: bool


def pairings(job: JobCalls, heads: Heads, told: set[int] | frozenset[int]) -> tuple[Pairing, ...]:
    """Hold every send and receive in which a rank stands against its peer.

    ``told`` are the ranks of which it is known where they stand.
    """
    posted = _posted(job, heads)
    standing_in = _Posted()
    for head in (head for found in heads.of.values() for head in found):
        for call in head.batch or (head.call,):
            standing_in.add(head.rank, call)
    found = []
    for own in heads.of.values():
        for head in own:
            for call in head.batch or (head.call,):
                if not call.p2p or call.peer is None or call.op not in _COUNTERPART:
                    continue
                found.append(
                    Pairing(
                        head=head,
                        call=call,
                        peer=call.peer,
                        answered=posted.answers(head.rank, call),
                        ready=standing_in.answers(head.rank, call),
                        told=call.peer in told,
                    )
                )
    # What was launched together ends together: who answers one call of such a batch and
    # stands alone in another does not come through.
    held = {p.head.rank for p in found if len(p.head.batch) > 1 and p.told and not p.answered}
    return tuple(replace(p, ready=False) if p.ready and p.peer in held else p for p in found)


def pair_waits(job: JobCalls, found: Iterable[Pairing]) -> tuple[Wait, ...]:
    """Draw the waits of everyone who stands in a send or a receive."""
    by_rank: dict[int, list[Pairing]] = defaultdict(list)
    for pairing in found:
        by_rank[pairing.head.rank].append(pairing)
    return tuple(wait for own in by_rank.values() for wait in _waits(job, own))


def wrong_peers(job: JobCalls, found: Sequence[Pairing], within: set[int]) -> tuple[int, ...]:
    """Find ranks that talk to another rank than they used to, than others do, or than is waiting.

    A rank that left its own habit at this line of code is wrong. If ranks send by one rule
    ("to the next rank") and a few do not, those few are. Else a rank is that sends to one who
    listens to another, who listens to another (and so on) who listens to it. Only records of
    ranks ``within`` are read for it.
    """
    lonely = [pairing for pairing in found if not pairing.answered and pairing.told]
    caught = {p.head.rank for p in lonely} | {p.peer for p in lonely}
    studied = sorted(caught & within)[:MAX_STUDIED]
    for odd in ({r for r in studied if left_habit(job, r)}, _odd_distances(job, found)):
        wrong = caught & odd
        if wrong:
            return tuple(sorted(wrong))
    listens_to = {p.head.rank: p.peer for p in lonely if p.call.op == "recv"}
    wrong = {
        pairing.head.rank
        for pairing in lonely
        if pairing.call.op == "send"
        and pairing.head.rank in _followed(listens_to, pairing.peer)
        and not _named_before(job, pairing)
    }
    return tuple(sorted(wrong)) if len(wrong) == 1 else ()


def _followed(listens_to: Mapping[int, int], rank: int) -> set[int]:
    """List whom a rank listens to, and whom that one listens to, and so on."""
    found: set[int] = set()
    while rank in listens_to and listens_to[rank] not in found:
        rank = listens_to[rank]
        found.add(rank)
    return found


def deaf_to_sender(job: JobCalls, found: Iterable[Pairing], caught: set[int]) -> tuple[int, ...]:
    """Find the one rank that listens to who does not send, while another sends to it in vain.

    Only among ranks that wait for each other in a circle (``caught``): else its sender may just
    be late, and the other is next in turn.
    """
    lonely = [p for p in found if not p.answered and p.told and p.head.rank in caught]
    senders = {p.peer: p.head.rank for p in lonely if p.call.op == "send"}
    talking = {p.head.rank for p in lonely if p.call.op == "send"}
    deaf = {
        p.head.rank
        for p in lonely
        if p.call.op == "recv"
        and p.peer not in talking
        and senders.get(p.head.rank, p.peer) != p.peer
        and not _named_before(job, p)
    }
    return tuple(deaf) if len(deaf) == 1 else ()


def _named_before(job: JobCalls, pairing: Pairing) -> bool:
    """Tell whether a rank has had such a call with this peer before: then it is no wrong one."""
    return any(
        call.op == pairing.call.op
        and call.peer == pairing.peer
        and call.state is CallState.COMPLETED
        for group in job.groups
        if (progress := group.progress.get(pairing.head.rank)) is not None and progress.p2p
        for call in order_of(progress)
    )


class _Posted:
    """Sends and receives by rank, operation and peer, each with its tag (None: not told)."""

    def __init__(self) -> None:
        self._tags: dict[tuple[int, str, int | None], set[int | None]] = defaultdict(set)

    def add(self, rank: int, call: Call) -> None:
        """Note one call, if it is a send or a receive."""
        if call.p2p:
            self._tags[rank, call.op, call.peer].add(call.tag)

    def answers(self, rank: int, call: Call) -> bool:
        """Tell whether the peer of a call has posted its counterpart; tags count where told."""
        key = (-1 if call.peer is None else call.peer, _COUNTERPART[call.op], rank)
        tags = self._tags.get(key, set())
        return bool(tags) and (call.tag is None or None in tags or call.tag in tags)


def _posted(job: JobCalls, heads: Heads) -> _Posted:
    """Collect the unfinished sends and receives of each rank."""
    posted = _Posted()
    for group in job.groups:
        for rank, progress in group.progress.items():
            for call in progress.p2p:
                launched = not call.unclosed and call.state is not CallState.COMPLETED
                if launched and call.peer is not None:
                    posted.add(rank, call)
    for rank, found in heads.of.items():
        for head in found:
            if head.group < 0 and head.call.p2p and head.call.peer is not None:
                posted.add(rank, head.call)
    return posted


def _waits(job: JobCalls, own: Sequence[Pairing]) -> Iterable[Wait]:
    head = own[0].head
    launched = [] if head.call.unclosed else own  # else it waits for no one but itself
    alone = frozenset(p.peer for p in launched if not p.answered and p.told)
    queued = frozenset(p.peer for p in launched if p.answered and not p.ready)
    absent = frozenset(p.peer for p in launched if not p.told)
    shown = next((p for p in own if not p.answered), own[0])
    group = job.groups[head.group] if head.group >= 0 else None
    for on, certain in ((alone, True), (queued, False)):
        if on or (not alone and not queued and certain):
            yield Wait(
                waiter=head.rank,
                on=on,
                call=refer(group, shown.call),
                certain=certain and not (absent and not on),
                absent=absent,
                site=site_of(shown.call),
                source=head.source,
            )


def left_habit(job: JobCalls, rank: int) -> bool:
    """Tell whether a rank named, at a line of its code, a peer that it never names there.

    It is the call that holds the rank up, or its last: that may even have been answered, by a
    receive that was meant for another.
    """
    for group in job.groups:
        progress = group.progress.get(rank)
        if progress is None or not progress.p2p:
            continue
        by_stack: dict[Stack, list[Call]] = defaultdict(list)
        for call in order_of(progress):
            if call.frames:
                by_stack[call.op, call.frames].append(call)
        for calls in by_stack.values():
            first = next((c for c in calls if c.state is not CallState.COMPLETED), None)
            for odd in (first, calls[-1]):
                usual = {call.peer for call in calls if call is not odd}
                if odd is not None and len(usual) == 1 and odd.peer not in usual:
                    return True
    return False


def left_open(job: JobCalls, head: Head) -> bool:
    """Tell from all that a rank's recorder holds whether its send belongs to an open batch."""
    progress = job.groups[head.group].progress.get(head.rank) if head.group >= 0 else None
    if progress is None or not head.call.p2p:
        return False
    return any(call.unclosed and call.order == head.call.order for call in order_of(progress))


def _odd_distances(job: JobCalls, found: Sequence[Pairing]) -> set[int]:
    """Find ranks whose peer lies at another distance than that of most, at one line of code.

    Distances are counted within the group and go around: its last rank sends on to its first.
    """
    by_stack: dict[Stack, dict[int, int]] = defaultdict(dict)
    for pairing in found:
        if pairing.call.frames:
            stack = pairing.call.op, pairing.call.frames
            by_stack[stack][pairing.head.rank] = _distance(job, pairing)
    odd: set[int] = set()
    for distances in by_stack.values():
        usual, count = Counter(distances.values()).most_common(1)[0]
        if len(distances) // 2 < count < len(distances) and len(distances) > 2:
            odd.update(rank for rank, distance in distances.items() if distance != usual)
    return odd


def _distance(job: JobCalls, pairing: Pairing) -> int:
    """Count the steps from a rank on to its peer."""
    here, there = pairing.head.rank, pairing.peer
    members = job.groups[pairing.head.group].members if pairing.head.group >= 0 else ()
    if here in members and there in members:
        return (members.index(there) - members.index(here)) % len(members)
    return (there - here) % (1 + max((*job.present, *job.stacks), default=0))

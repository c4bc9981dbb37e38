"""The calls that hold ranks up: who has joined, who has not, and who waits for whom.

For each of them the ranks that have a part in it fall into those who have not joined, those who
have joined but are still in an older call (it is queued there), those inside, those who have
completed it, and those of whom nothing is known. From that follow the waits, be it a collective
or a send or receive, which is shared with its peers.

A send waits until its peer has posted the receive, a receive until the send. Numbers of such
calls count on each rank alone, so pairs are found by peer and order: the first unfinished send
to a rank goes with the first unfinished receive of that rank from here.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from whyhang.analyzer.collectives.groups import GroupCalls, GroupProgress, JobCalls
from whyhang.analyzer.collectives.mismatch import Mismatch, find_mismatch
from whyhang.analyzer.collectives.pending import IssuedCall, Pending, issued
from whyhang.analyzer.collectives.waits import CallRef, Wait
from whyhang.analyzer.facts import Call, CallState, Frame, Record, grouped, replace
from whyhang.analyzer.facts.calls import ROOTED

WORLD = "default_pg"
"""What torch calls the group of all ranks: its membership is known even if nobody lists it."""

MAX_PER_GROUP = 64
"""Collectives of one group that are looked at; ranks further ahead wait for the same ranks."""

Key = tuple[int, int]  # index of the group, sequence number

_COUNTERPART = {"send": "recv", "recv": "send"}

_Tags = dict[tuple[int, str, int | None], set[int | None]]  # by rank, operation and peer


class SharedCall(Record):
    """One call that holds ranks up. All sets are of global ranks.

    ``inside`` are the pending calls of those in it. ``missing`` have not joined it, ``queued``
    have, behind an older call of theirs. ``completed`` have left it; ``recorded``: more than a
    watchdog says so. ``unknown`` left no record. ``mismatch`` says how their calls differ.
    ``group`` and ``seq`` are those of a collective.
    """

    call: CallRef
    inside: tuple[IssuedCall, ...]
    missing: frozenset[int] = frozenset()
    queued: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    completed: frozenset[int] = frozenset()
    recorded: bool = False
    mismatch: Mismatch | None = None
    group: GroupCalls | None = None
    seq: int = 0

    @property
    def key(self) -> Key:
        """The group and the sequence number."""
        return self.group.index if self.group is not None else -1, self.seq

    @property
    def progress(self) -> Mapping[int, GroupProgress]:
        """How far each rank of the group came."""
        return self.group.progress if self.group is not None else {}

    @property
    def inferred(self) -> bool:
        """Whether the membership of the group was inferred."""
        return self.group is not None and self.group.inferred

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks inside."""
        return tuple(sorted({pending.rank for pending in self.inside}))

    @property
    def joined(self) -> tuple[int, ...]:
        """The ranks inside and those that have it queued."""
        return tuple(sorted({*self.ranks, *self.queued}))

    @property
    def site(self) -> Frame | None:
        """The first known place in the user's code of a rank inside."""
        return next((p.site for p in self.inside if p.site is not None), None)

    @property
    def stalled(self) -> bool:
        """Whether others have completed what those inside have not, though nobody is missing.

        Completing a collective without a root takes everyone's part in it. Over gloo the end
        of a call is recorded some time after it. With as many on either side, and only a
        watchdog's words for it, it may as well be that their calls do not match: then nobody
        is behind.
        """
        return (
            self.group is not None
            and bool(self.completed)
            and not self.missing
            and len(self.completed) >= len(self.inside) + (not self.recorded)
            and self.call.op not in ROOTED
            and not any(self.progress[pending.rank].over_gloo for pending in self.inside)
            and (not self.inferred or self.group.pg.description == WORLD)
        )

    def waits(self) -> Iterable[Wait]:
        """Yield the waits of everyone who is in it."""
        mismatch = self.mismatch
        queued = frozenset() if self.stalled else self.queued
        queued -= frozenset(mismatch.minority if mismatch is not None else ())
        others_of = _other_sides(mismatch) if mismatch is not None else {}
        shared: dict[frozenset[int], frozenset[int]] = {}  # one set for all who need the same ranks
        for pending in self.inside:
            others = others_of.get(pending.rank, frozenset())
            needed = shared.setdefault(others, self.missing | others)
            wait = Wait(
                waiter=pending.rank,
                on=needed,
                call=self.call,
                absent=self.unknown,
                site=pending.site,
            )
            if pending.call.unclosed:  # waits for nobody but itself
                yield replace(wait, on=frozenset(), absent=frozenset())
                continue
            if needed or not queued:
                yield wait if needed else replace(wait, certain=not self.unknown)
            if queued:
                yield replace(wait, on=queued, certain=False)


class PendingP2P(IssuedCall):
    """One send or receive that holds a rank up, and how its peer answers it.

    ``matched``: the peer has posted the counterpart; ``peer_inside``: it is in it, too.
    ``peer_known``: it is known where the peer stands.
    """

    peer: int = -1
    matched: bool = False
    peer_inside: bool = False
    peer_known: bool = False


def pending_collectives(pending: Pending) -> tuple[SharedCall, ...]:
    """Find every collective that some rank is in."""
    groups: dict[int, GroupCalls] = {}
    inside: dict[int, dict[int, list[IssuedCall]]] = defaultdict(lambda: defaultdict(list))
    for calls in pending.values():
        for each in calls:
            if each.group is not None and not each.call.p2p and each.call.seq is not None:
                groups[each.group.index] = each.group
                inside[each.group.index][each.call.seq].append(each)
    return tuple(
        _collective(groups[index], seq, by_seq)
        for index, by_seq in inside.items()
        for seq in sorted(by_seq)[:MAX_PER_GROUP]
    )


def _collective(
    group: GroupCalls, seq: int, by_seq: Mapping[int, Sequence[IssuedCall]]
) -> SharedCall:
    inside = by_seq[seq]
    ranks_inside = {each.rank for each in inside}
    # Calls of one group run in order: whoever is in a later one has completed this.
    beyond = {each.rank for later, calls in by_seq.items() if later > seq for each in calls}
    # Whoever opened a coalesced block and never closed it has launched nothing.
    missing = {each.rank for each in inside if each.call.unclosed}
    queued, completed = set(), set()
    calls: dict[int, Call] = {}
    for rank, progress in group.progress.items():
        call = progress.calls.get(seq)
        if call is not None:
            calls[rank] = call
        if rank in ranks_inside:
            continue
        if call is None and (progress.enqueued is None or progress.enqueued < seq):
            # Whoever has no open call has not joined one that holds others up.
            if progress.idle or (progress.enqueued is not None and progress.exact):
                missing.add(rank)
        elif rank in beyond or progress.has_completed(seq):
            completed.add(rank)
        else:
            queued.add(rank)
    unknown = group.absent | {  # whose record does not show whether they have joined
        rank
        for rank, each in group.progress.items()
        if not each.idle and (each.enqueued is None or (not each.exact and each.enqueued < seq))
    }
    mismatch = find_mismatch(calls, group.members, len(missing | unknown) + group.silent)
    return SharedCall(
        group=group,
        seq=seq,
        call=_named(group, inside, calls, mismatch).ref,
        inside=tuple(inside),
        missing=frozenset(missing),
        queued=frozenset(queued),
        completed=frozenset(completed),
        recorded=any(t.kind != "watchdog" for r in completed for t in group.progress[r].tracks),
        unknown=unknown,
        mismatch=mismatch,
    )


def _named(
    group: GroupCalls,
    inside: Sequence[IssuedCall],
    calls: Mapping[int, Call],
    mismatch: Mismatch | None,
) -> IssuedCall:
    """Choose the call that names the collective: the majority's."""
    if mismatch is not None:
        rank = mismatch.sides[0].ranks[0]
        return issued(group, group.progress[rank], calls[rank])
    named = (each for each in inside if each.call.op)
    known = (issued(group, group.progress[rank], call) for rank, call in calls.items())
    return next(named, None) or next(known, inside[0])


def _other_sides(mismatch: Mismatch) -> dict[int, frozenset[int]]:
    """Return whose other call each rank waits for: the majority for the rest, at a tie all."""
    sides = [frozenset(side.ranks) for side in mismatch.sides]
    if mismatch.tie:
        everyone = frozenset().union(*sides)
        return {rank: everyone - side for side in sides for rank in side}
    return dict.fromkeys(sides[0], frozenset().union(*sides[1:]))


def in_stacks(job: JobCalls, pending: Pending) -> Iterable[SharedCall]:
    """Yield the collectives that only stacks show: whoever is elsewhere may be who is awaited."""
    every = [each for calls in pending.values() for each in calls]
    shown = [each for each in every if each.group is None and not each.call.p2p]
    groups = {each.rank: job.stacks[each.rank].group for each in shown}
    for own in grouped(shown, lambda each: (groups[each.rank].name, each.call.op)).values():
        ranks = frozenset(groups[own[0].rank].ranks or ())
        others = ranks.difference(each.rank for each in own)
        yield SharedCall(call=own[0].ref, inside=tuple(own), queued=others)


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


def _tags(calls: Iterable[tuple[int, Call]]) -> _Tags:
    tags: _Tags = defaultdict(set)
    for rank, call in calls:
        if call.p2p:
            tags[rank, call.op, call.peer].add(call.tag)
    return tags


def _answers(tags: _Tags, rank: int, call: Call) -> bool:
    theirs = tags.get((call.peer or 0, _COUNTERPART[call.op], rank), set())
    return bool(theirs) and (call.tag is None or not theirs.isdisjoint({None, call.tag}))

"""Calls as meetings: who has come, who has not, who has left, and who waits for whom.

For each call that holds some rank up, its members fall into those who have not joined, those
who have joined but stand in an older call (it is queued there), those who stand in it, those who
have finished it, and those of whom nothing is known. From that follow the waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer.collectives.compare import ROOTED, Split, split
from whyhang.analyzer.collectives.graph import CallRef, Wait
from whyhang.analyzer.collectives.groups import GroupCalls, GroupProgress, JobCalls
from whyhang.analyzer.collectives.heads import Head, Heads, refer, site_of
from whyhang.analyzer.facts import Call, CallState, Record, replace

WORLD = "default_pg"
"""What torch calls the group of all ranks: its membership is known even if nobody lists it."""

MAX_PER_GROUP = 64
"""Meetings of one group that are looked at; ranks further ahead wait for the same ranks."""


class Meeting(Record):
    """One collective that holds ranks up. All sets are of global ranks.

    ``inside`` stand in it. ``missing`` have not joined it, ``queued`` have, behind an older
    call of theirs. ``done`` have finished it; ``recorded``: more than a
    watchdog tells so. ``unknown`` left no record. ``split`` tells if they called different things.
    """

    group: GroupCalls
    number: int
    seq: int
    call: CallRef
    inside: tuple[Head, ...]
    missing: frozenset[int]
    queued: frozenset[int]
    done: frozenset[int]
    recorded: bool
    unknown: frozenset[int]
    split: Split | None

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that stand in it."""
        return tuple(sorted(head.rank for head in self.inside))

    @property
    def told_late(self) -> bool:
        """Whether the end of a call is recorded only some time after it."""
        return any(
            track.library == "gloo"
            for head in self.inside
            for track in self.group.progress[head.rank].tracks
        )

    @property
    def stalled(self) -> bool:
        """Whether others have finished what those inside have not, though nobody is missing.

        Finishing a collective without a root takes everyone's part in it. Over gloo the end
        of a call is recorded some time after it. With as many on either side, and only a
        watchdog's words for it, it may as well be that their calls do not match: then nobody
        is behind.
        """
        return (
            bool(self.done)
            and not self.missing
            and len(self.done) >= len(self.inside) + (not self.recorded)
            and self.call.op not in ROOTED
            and not self.told_late
            and (not self.group.inferred or self.group.pg.description == WORLD)
        )


def meetings(job: JobCalls, heads: Heads) -> tuple[Meeting, ...]:
    """Find every collective in which some rank stands."""
    inside: dict[int, dict[int, list[Head]]] = defaultdict(lambda: defaultdict(list))
    for found in heads.of.values():
        for head in found:
            if head.group >= 0 and not head.call.p2p and head.call.seq is not None:
                inside[head.group][head.call.seq].append(head)
    return tuple(
        _meeting(job.groups[number], number, seq, calls)
        for number, calls in inside.items()
        for seq in sorted(calls)[:MAX_PER_GROUP]
    )


def collective_waits(found: Iterable[Meeting]) -> tuple[Wait, ...]:
    """Draw the waits of everyone who stands in a collective."""
    return tuple(wait for meeting in found for wait in _waits(meeting))


def _meeting(group: GroupCalls, number: int, seq: int, heads: Mapping[int, list[Head]]) -> Meeting:
    inside = heads[seq]
    standing_in = {head.rank for head in inside}
    # Calls of one group run in order: whoever stands in a later one is through with this.
    beyond = {head.rank for later, found in heads.items() if later > seq for head in found}
    # Whoever opened a coalesced block and never closed it has launched nothing.
    missing = {head.rank for head in inside if head.call.unclosed}
    queued, done = set(), set()
    calls: dict[int, Call] = {}
    for rank, progress in group.progress.items():
        call = progress.calls.get(seq)
        if call is not None:
            calls[rank] = call
        if rank in standing_in:
            continue
        if call is None and not _joined(progress, seq):
            # Whoever has no open call has not joined one that holds others up.
            if progress.idle or (progress.enqueued is not None and progress.exact):
                missing.add(rank)
        elif rank in beyond or _finished(progress, call, seq):
            done.add(rank)
        else:
            queued.add(rank)
    unknown = group.absent | _untold(group, seq)
    agreed = split(calls, group.members, len(missing | unknown) + group.silent)
    return Meeting(
        group=group,
        number=number,
        seq=seq,
        call=refer(group, _shown(calls, inside, seq, agreed)),
        inside=tuple(inside),
        missing=frozenset(missing),
        queued=frozenset(queued),
        done=frozenset(done),
        recorded=any(t.kind != "watchdog" for r in done for t in group.progress[r].tracks),
        unknown=unknown,
        split=agreed,
    )


def _joined(progress: GroupProgress, seq: int) -> bool:
    return progress.enqueued is not None and progress.enqueued >= seq


def _finished(progress: GroupProgress, call: Call | None, seq: int) -> bool:
    if call is not None and call.state is not CallState.UNKNOWN:
        return call.state is CallState.COMPLETED
    return progress.completed is not None and progress.completed >= seq


def _untold(group: GroupCalls, seq: int) -> frozenset[int]:
    """List members of whom there is a record that does not tell whether they have joined."""
    return frozenset(
        rank
        for rank, progress in group.progress.items()
        if not progress.idle
        and (progress.enqueued is None or (not progress.exact and progress.enqueued < seq))
    )


def _shown(
    calls: Mapping[int, Call], inside: Sequence[Head], seq: int, agreed: Split | None
) -> Call:
    """Choose the call that names the meeting: the majority's."""
    if agreed is not None:
        return calls[agreed.camps[0].ranks[0]]
    named = next((head.call for head in inside if head.call.op), None)
    return named or next(iter(calls.values()), Call(op="", seq=seq))


def _waits(meeting: Meeting) -> Iterable[Wait]:
    minority = frozenset(meeting.split.minority) if meeting.split is not None else frozenset()
    queued = frozenset() if meeting.stalled else meeting.queued - minority
    sides = _other_sides(meeting)
    needed: dict[frozenset[int], frozenset[int]] = {}  # one set for all who need the same ranks
    for head in meeting.inside:
        if head.call.unclosed:
            yield Wait(waiter=head.rank, on=frozenset(), call=meeting.call, source=head.source)
            continue
        others = sides.get(head.rank, frozenset())
        absentees = needed.setdefault(others, meeting.missing | others)
        wait = Wait(
            waiter=head.rank,
            on=absentees,
            call=meeting.call,
            absent=meeting.unknown,
            site=site_of(head.call),
            source=head.source,
        )
        if absentees or not queued:
            yield wait if absentees else replace(wait, certain=not meeting.unknown)
        if queued:
            yield replace(wait, on=queued, certain=False)


def _other_sides(meeting: Meeting) -> dict[int, frozenset[int]]:
    """Say whose other call each rank waits for: the majority for the minority, a tie for both."""
    if meeting.split is None:
        return {}
    camps = [frozenset(camp.ranks) for camp in meeting.split.camps]
    if meeting.split.tie:
        everyone = frozenset().union(*camps)
        return {rank: everyone - camp for camp in camps for rank in camp}
    rest = frozenset().union(*camps[1:])
    return dict.fromkeys(camps[0], rest)

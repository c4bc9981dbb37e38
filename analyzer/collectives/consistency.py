"""Corrections of what records say, where they contradict each other or leave the end of calls open.

Dumps are taken rank by rank, and a file of an earlier time may lie beside newer ones. A call
that takes every member's part and is completed on one rank has been joined by all of them: a
dump of a member that ends before it is older, and does not show where that rank is now.
Over gloo there is another reading: a call that failed is recorded like one that went well. So where
a call is the last of all on a rank that others have not joined, it may have failed there.

NCCL's log lines announce calls and never say that one is completed. But ranks that announced
different calls under one number cannot get past it: those before are completed, and this is not.
"""

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter

from whyhang.analyzer.collectives.groups import (
    OVERTAKEN,
    RECORDER,
    Disagreement,
    GroupCalls,
    GroupProgress,
    JobCalls,
)
from whyhang.analyzer.collectives.job_calls import job_calls
from whyhang.analyzer.collectives.mismatch import find_mismatch
from whyhang.analyzer.collectives.pending import IssuedCall, last_calls
from whyhang.analyzer.facts import Call, CallState, Group, Track, replace
from whyhang.analyzer.facts.calls import ROOTED

OTHER_RUN = 60.0
"""Seconds that a dump may seem to be newer than one that overtook it: clocks differ."""

MAX_COMPARED = 100_000  # announced calls of all ranks; of more only the latest are compared
AROUND = 2  # announced calls kept on both sides of the first mismatch


def consistent_calls(
    tracks: Iterable[Track], pgs: Iterable[Group], world_size: int | None
) -> JobCalls:
    """Merge tracks by group and rank, and correct what contradicts the rest."""
    tracks, pgs = list(tracks), list(pgs)
    job = job_calls(tracks, pgs, world_size)
    failed = [last for last in last_calls(job).values() if _may_have_failed(last)]
    older = _overtaken(job)
    if older:
        job = job_calls(_without_calls(tracks, older), pgs, world_size)
    failed = [call for call in failed if any(_recorded(group, call) for group in job.groups)]
    groups = (_completed_before_mismatch(_reopened(group, failed)) for group in job.groups)
    disagreements = (*job.disagreements, *older.values(), *map(_may_not_be_over, failed))
    return replace(job, groups=tuple(groups), disagreements=disagreements)


def in_motion(job: JobCalls) -> bool:
    """Return whether every dump was written while its rank went on, and none is missing."""
    known = [p for group in job.groups for p in group.progress.values() if p.known]
    if any(group.absent and not group.inferred for group in job.groups):
        return False
    return bool(known) and all(p.tracks and all(t.in_motion for t in p.tracks) for p in known)


def _overtaken(job: JobCalls) -> dict[int, Disagreement]:
    """Find the ranks whose dumps others overtook, each with what shows it."""
    overtaken: dict[int, Disagreement] = {}
    newest = _newest_times(job)
    ends = {id(last.call) for last in last_calls(job).values()}
    for group in job.groups:
        last = _last_joint_call(group, ends)
        if last is None:
            continue
        seq, witness = last
        behind = [
            rank
            for rank, progress in group.progress.items()
            if _by_recorder(progress) and progress.exact and (progress.enqueued or 0) < seq
        ]
        # Calls that were issued long after the other dump's last one cannot be overtaken by it.
        later = [r for r in behind if newest.get(r, 0.0) > newest.get(witness, 0.0) + OTHER_RUN]
        if later:
            older = _older(group, witness, later[0], "an earlier run")
            overtaken.setdefault(witness, older)
        else:
            for rank in behind:
                overtaken.setdefault(rank, _older(group, rank, witness, f"before #{seq}"))
    return overtaken


def _last_joint_call(group: GroupCalls, ends: Collection[int]) -> tuple[int, int] | None:
    """Find the last call, and a rank, that is completed there and takes everyone's part.

    ``ends`` are the calls that ranks issued last: those may have failed, over gloo.
    """
    if group.space != "torch" or len(group.members) < 2:
        return None
    every = group.progress.values()
    going_on = [p.enqueued or 0 for p in every if any(track.in_motion for track in p.tracks)]
    joint = [
        (seq, rank)
        for rank, progress in group.progress.items()
        if progress.tracks and _by_recorder(progress) and progress.exact
        for seq, call in progress.calls.items()
        if call.op and call.op not in ROOTED and call.state is CallState.COMPLETED
        if id(call) not in ends or not progress.over_gloo or any(n < seq for n in going_on)
    ]
    return max(joint, key=itemgetter(0), default=None)


def _by_recorder(progress: GroupProgress) -> bool:
    """Return whether a recorder shows how far a rank came, be it by its silence."""
    return not progress.tracks or progress.tracks[0].kind == RECORDER


def _newest_times(job: JobCalls) -> dict[int, float]:
    newest: dict[int, float] = {}
    for group in job.groups:
        for rank, progress in group.progress.items():
            for call in (*progress.calls.values(), *progress.p2p):
                newest[rank] = max(newest.get(rank, 0.0), call.created_at or 0.0)
    return newest


def _older(group: GroupCalls, rank: int, other: int, when: str) -> Disagreement:
    sources = (group.progress[rank].source, group.progress[other].source)
    return Disagreement(
        rank=rank,
        group=group.name,
        what="the moment of its dump",
        believed=f"rank {other}'s is newer",
        other=f"its own is of {when}, and was left out",
        sources=tuple(source for source in sources if source is not None),
    )


def _without_calls(tracks: Iterable[Track], ranks: Mapping[int, object]) -> list[Track]:
    """Keep of some ranks' dumps only that there are such ranks and which groups they use."""
    nothing = {"enqueued": None, "completed": None, "calls": (), "detail": None}
    return [
        replace(track, kind=OVERTAKEN, **nothing)
        if track.kind == RECORDER and track.who.rank in ranks
        else track
        for track in tracks
    ]


def _may_not_be_over(last: IssuedCall) -> Disagreement:
    return Disagreement(
        rank=last.rank,
        group=last.ref.group,
        what=f"the end of {last.call.op} #{last.call.seq}",
        believed="not all of the group have joined it, or not with the same call",
        other="it counts as finished on this rank: it may have failed there",
        sources=(last.source,) if last.source is not None else (),
    )


def _may_have_failed(last: IssuedCall) -> bool:
    """Return whether not all of its group were in a call over gloo that counts as completed."""
    group, seq = last.group, last.call.seq
    if last.call.state is not CallState.COMPLETED or last.call.p2p:
        return False
    if seq is None or group is None or not group.progress[last.rank].over_gloo:
        return False
    known = {r: p for r, p in group.progress.items() if p.tracks and p.enqueued is not None}
    if any((other.enqueued or 0) < seq for other in known.values()):
        return True
    calls = {r: p.calls[seq] for r, p in known.items() if seq in p.calls}
    return find_mismatch(calls, group.members) is not None


def _recorded(group: GroupCalls, last: IssuedCall) -> bool:
    own = group.progress.get(last.rank) if group.name == last.ref.group else None
    return group.space == "torch" and own is not None and last.call.seq in own.calls


def _reopened(group: GroupCalls, failed: Iterable[IssuedCall]) -> GroupCalls:
    """Take those of the calls that are this group's for unfinished ones."""
    progress = dict(group.progress)
    for last in failed:
        if _recorded(group, last):
            own, seq = progress[last.rank], last.call.seq or 0
            call = replace(own.calls[seq], state=CallState.SCHEDULED)
            progress[last.rank] = replace(own, calls={**own.calls, seq: call}, completed=seq - 1)
    return replace(group, progress=progress)


def _completed_before_mismatch(group: GroupCalls) -> GroupCalls:
    """Where no end is recorded, mark the calls before the first mismatch as completed."""
    called = [progress for progress in group.progress.values() if progress.calls]
    if group.space != "nccl" or group.inferred or len(called) < 2:
        return group
    states = {call.state for progress in called for call in progress.calls.values()}
    if states != {CallState.UNKNOWN} or any(each.completed is not None for each in called):
        return group
    latest = {rank: progress.calls for rank, progress in group.progress.items()}
    size = sum(progress.enqueued or 0 for progress in group.progress.values())
    if size > MAX_COMPARED and _first_mismatch(latest, group) is None:
        return group
    whole = {rank: progress.collectives() for rank, progress in group.progress.items()}
    seq = _first_mismatch(whole, group)
    if seq is None:
        return group
    progress = {rank: _marked(own, whole[rank], seq) for rank, own in group.progress.items()}
    return replace(group, progress=progress)


def _first_mismatch(calls: Mapping[int, Mapping[int, Call]], group: GroupCalls) -> int | None:
    """Return the first number under which two ranks called different things."""
    for seq in sorted({seq for own in calls.values() for seq in own}):
        under = {rank: own[seq] for rank, own in calls.items() if seq in own}
        if len(under) > 1 and find_mismatch(under, group.members) is not None:
            return seq
    return None


def _marked(progress: GroupProgress, calls: Mapping[int, Call], seq: int) -> GroupProgress:
    near = {
        number: replace(call, state=CallState.COMPLETED if number < seq else CallState.SCHEDULED)
        for number, call in calls.items()
        if seq - AROUND <= number <= seq + AROUND
    }
    return replace(progress, calls=near, completed=min(seq - 1, progress.enqueued or 0))

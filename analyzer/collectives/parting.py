"""Where ranks part, if nothing tells of the end of any call.

NCCL's lines announce calls and never say that one is done. But ranks that announced different
calls under one number cannot get past it: what comes before is over, and this one is not. Lines of
one file are compared by their reader; ranks that write to a file each are compared here.
"""

from __future__ import annotations

from collections.abc import Mapping

from whyhang.analyzer.collectives.compare import split
from whyhang.analyzer.collectives.groups import GroupCalls, GroupProgress
from whyhang.analyzer.facts import Call, CallState, replace

MAX_COMPARED = 100_000  # calls of all ranks, of which only the latest are compared otherwise
AROUND = 2  # calls kept on both sides of the first difference


def parted(group: GroupCalls) -> GroupCalls:
    """Mark what is over and what is not, where the calls of a group's ranks differ."""
    if group.space != "nccl" or group.inferred or not _nothing_told(group):
        return group
    latest = {rank: dict(progress.calls) for rank, progress in group.progress.items()}
    size = sum(progress.enqueued or 0 for progress in group.progress.values())
    if size > MAX_COMPARED and _first_split(latest, group) is None:
        return group
    whole = {rank: _all_calls(progress) for rank, progress in group.progress.items()}
    seq = _first_split(whole, group)
    if seq is None:
        return group
    progress = {
        rank: _marked(progress, whole[rank], seq) for rank, progress in group.progress.items()
    }
    return replace(group, progress=progress)


def _nothing_told(group: GroupCalls) -> bool:
    known = [progress for progress in group.progress.values() if progress.calls]
    return len(known) > 1 and all(
        progress.completed is None
        and all(c.state is CallState.UNKNOWN for c in progress.calls.values())
        for progress in known
    )


def _all_calls(progress: GroupProgress) -> dict[int, Call]:
    found = dict(progress.calls)
    for track in progress.tracks:
        if track.detail is not None:
            found.update((c.seq, c) for c in track.detail() if c.seq is not None and not c.p2p)
    return found


def _first_split(calls: Mapping[int, Mapping[int, Call]], group: GroupCalls) -> int | None:
    """Find the first number under which two ranks called different things."""
    numbers = sorted({seq for own in calls.values() for seq in own})
    for seq in numbers:
        here = {rank: own[seq] for rank, own in calls.items() if seq in own}
        if len(here) > 1 and split(here, group.members) is not None:
            return seq
    return None


def _marked(progress: GroupProgress, calls: Mapping[int, Call], seq: int) -> GroupProgress:
    near = {
        number: replace(call, state=CallState.COMPLETED if number < seq else CallState.SCHEDULED)
        for number, call in calls.items()
        if seq - AROUND <= number <= seq + AROUND
    }
    return replace(progress, calls=near, completed=min(seq - 1, progress.enqueued or 0))

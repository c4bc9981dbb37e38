"""Where each rank stands: its head, the oldest call it has issued and not finished.

On one device calls of one group run in the order of issue, and calls of different groups wait
for each other through the compute stream, so the oldest unfinished call is what holds a rank
up; later ones are queued behind it. Sources that do not tell the order over groups give a
rank one head per group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.collectives.compare import family
from whyhang.analyzer.collectives.graph import CallRef
from whyhang.analyzer.collectives.groups import GroupCalls, GroupProgress, JobCalls
from whyhang.analyzer.collectives.records import Disagreement, Spot
from whyhang.analyzer.collectives.words import record
from whyhang.analyzer.facts import Call, CallState, Frame, Record, Source
from whyhang.analyzer.stacks.usercode import user_frame


class Head(Record):
    """The call that holds ``rank`` up. ``group`` is its place in the job's groups.

    ``batch`` are all sends and receives that were launched with it.
    """

    rank: int
    group: int
    call: Call
    source: Source | None
    batch: tuple[Call, ...] = ()


class Heads(Record):
    """The heads of all ranks, where they stand in words, and what sources disagree on."""

    of: dict[int, tuple[Head, ...]]
    spots: dict[int, Spot]
    doubts: tuple[Disagreement, ...]


def find_heads(job: JobCalls) -> Heads:
    """Find what holds each rank up; ranks with nothing unfinished have no head."""
    candidates: dict[int, list[Head]] = defaultdict(list)
    for number, group in enumerate(job.groups):
        ahead = _ahead(group)
        for rank, progress in group.progress.items():
            if ahead is None:
                candidates[rank] += _unfinished(number, progress)
            elif rank in ahead:
                candidates[rank].append(_furthest(number, progress))
    of: dict[int, tuple[Head, ...]] = {}
    doubts: list[Disagreement] = []
    for rank in candidates.keys() | job.stacks.keys():
        heads, doubt = _with_stack(job, rank, _oldest(candidates.get(rank, [])))
        doubts += doubt
        if heads:
            of[rank] = heads
    spots = _last_calls(job)
    spots.update((rank, _inside(job, heads[0])) for rank, heads in of.items())
    return Heads(of=of, spots=spots, doubts=tuple(doubts))


def _last_calls(job: JobCalls) -> dict[int, Spot]:
    """Say for each rank what it called last."""
    last: dict[int, tuple[float, GroupCalls, Call, Source | None]] = {}
    for group in job.groups:
        for rank, progress in group.progress.items():
            newest = _newest(progress)
            if newest is not None and (rank not in last or _age(newest) >= last[rank][0]):
                last[rank] = (_age(newest), group, newest, progress.source)
    return {
        rank: Spot(
            rank=rank,
            call=refer(group, call),
            inside=False,
            site=site_of(call),
            source=source,
            quote=record(call, group.name),
        )
        for rank, (_, group, call, source) in last.items()
    }


def refer(group: GroupCalls | None, call: Call) -> CallRef:
    """Name a call of a group."""
    return CallRef(
        op=call.op or None,
        group=group.name if group else "",
        seq=call.seq,
        p2p=call.p2p,
        peer=call.peer,
        of=group.pg if group else None,
    )


def site_of(call: Call) -> Frame | None:
    """Find the place in the user's code that made a call."""
    return user_frame(call.frames)


def _unfinished(number: int, progress: GroupProgress) -> list[Head]:
    """List the first unfinished collective and the first unfinished batch of sends and receives."""
    source = progress.source
    found = []
    waiting = [c for c in progress.calls.values() if c.state is not CallState.COMPLETED]
    if waiting:
        first = min(waiting, key=lambda call: call.seq or 0)
        found.append(Head(rank=progress.rank, group=number, call=first, source=source))
    elif _behind_itself(progress) and progress.exact:
        unnamed = Call(op="", seq=(progress.completed or 0) + 1, state=CallState.SCHEDULED)
        found.append(Head(rank=progress.rank, group=number, call=unnamed, source=source))
    pairs = [call for call in progress.p2p if call.state is not CallState.COMPLETED]
    if pairs:
        batch = tuple(call for call in pairs if call.seq == pairs[0].seq)
        found.append(
            Head(rank=progress.rank, group=number, call=pairs[0], source=source, batch=batch)
        )
    return found


def _ahead(group: GroupCalls) -> frozenset[int] | None:
    """Where a source tells of no completion, only those ahead of others can be said to wait.

    None: completion is told, and each rank speaks for itself.
    """
    ranks = group.progress.values()
    told = any(
        s.completed is not None
        or any(call.state is not CallState.UNKNOWN for call in (*s.calls.values(), *s.p2p))
        for s in ranks
        if s.known
    )
    if told:
        return None
    counts = {s.rank: s.enqueued for s in ranks if s.enqueued is not None}
    if len(set(counts.values())) < 2:
        return frozenset()
    furthest = max(counts.values())
    return frozenset(rank for rank, count in counts.items() if count == furthest)


def _furthest(number: int, progress: GroupProgress) -> Head:
    last = progress.enqueued or 0
    call = progress.calls.get(last, Call(op="", seq=last))
    return Head(rank=progress.rank, group=number, call=call, source=progress.source)


def _behind_itself(progress: GroupProgress) -> bool:
    return (
        progress.enqueued is not None
        and progress.completed is not None
        and progress.enqueued > progress.completed
    )


def _oldest(found: Sequence[Head]) -> tuple[Head, ...]:
    """Keep the head that was issued first, and those whose place in the order is not told."""
    placed = [head for head in found if head.call.order is not None]
    placed.sort(key=lambda head: head.call.order or 0)
    rest = [head for head in found if head.call.order is None]
    if not placed and len(rest) > 1 and all(head.call.created_at is not None for head in rest):
        rest = [min(rest, key=lambda head: head.call.created_at or 0)]
    return (*placed[:1], *rest)


def _newest(progress: GroupProgress) -> Call | None:
    if progress.p2p or progress.calls:
        calls = (*progress.p2p, *progress.calls.values())
        return max(calls, key=lambda call: (_age(call), call.seq or 0))
    return None


def _age(call: Call) -> float:
    """Order calls of one rank in time; the record number is surer than the clock."""
    return float(call.order) if call.order is not None else (call.created_at or 0.0)


def _stack_call(job: JobCalls, rank: int) -> Call | None:
    """Give the call that a stack shows the rank in."""
    track = job.stacks.get(rank)
    calls = track.calls if track is not None else ()
    return next((call for call in calls if call.state is CallState.INSIDE), None)


def _with_stack(
    job: JobCalls, rank: int, heads: tuple[Head, ...]
) -> tuple[tuple[Head, ...], list[Disagreement]]:
    """Let a stack have its say: it sees what recorders do not record (sends over gloo)."""
    inside = _stack_call(job, rank)
    track = job.stacks.get(rank)
    if inside is None or track is None or not inside.op:
        return heads, []
    if any(family(head.call.op) == family(inside.op) for head in heads):
        return heads, []
    if inside.p2p and not any(head.call.p2p for head in heads):
        return (Head(rank=rank, group=-1, call=inside, source=track.source),), []
    if not heads:
        return (Head(rank=rank, group=-1, call=inside, source=track.source),), []
    believed = refer(job.groups[heads[0].group], heads[0].call)
    return heads, [
        Disagreement(
            rank=rank,
            group=believed.group,
            what="the call it is in",
            believed=str(believed),
            other=f"its stack shows {inside.op}",
            sources=tuple(s for s in (heads[0].source, track.source) if s is not None),
        )
    ]


def _inside(job: JobCalls, head: Head) -> Spot:
    group = job.groups[head.group] if head.group >= 0 else None
    return Spot(
        rank=head.rank,
        call=refer(group, head.call),
        inside=True,
        site=site_of(head.call),
        source=head.source,
        quote=record(head.call, group.name if group is not None else ""),
    )

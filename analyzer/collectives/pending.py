"""The pending call of each rank: the oldest that it has issued and not finished.

On one device calls of one group run in the order of issue, and calls of different groups wait
for each other through the compute stream, so the oldest unfinished call is what holds a rank
up; later ones are queued behind it. Sources that do not record the order over groups give a
rank one pending call per group.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from whyhang.analyzer.collectives.groups import Disagreement, GroupCalls, GroupProgress, JobCalls
from whyhang.analyzer.collectives.mismatch import family
from whyhang.analyzer.collectives.waits import CallRef
from whyhang.analyzer.facts import Call, CallState, Frame, Group, Record, Source, replace
from whyhang.analyzer.stacks.usercode import user_frame


class IssuedCall(Record):
    """A call that a rank issued on a group; the group is None where only a stack shows it.

    ``shown_on`` is its group then, where that is known. ``inside``: it holds the rank up; else it
    is over, as far as is known. ``batch`` are the sends and receives launched with it.
    """

    rank: int
    group: GroupCalls | None
    call: Call
    source: Source | None
    inside: bool = True
    batch: tuple[Call, ...] = ()
    shown_on: Group | None = None

    def __str__(self) -> str:
        return f"{'in' if self.inside else 'after'} {self.ref}"

    @property
    def launched(self) -> tuple[Call, ...]:
        """The call with all that was launched with it."""
        return self.batch or (self.call,)

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks of the group; empty for none."""
        return self.group.members if self.group is not None else ()

    @property
    def ref(self) -> CallRef:
        """The name of the call."""
        ref = call_ref(self.group, self.call)
        return replace(ref, group=self.shown_on.name) if self.shown_on is not None else ref

    @property
    def site(self) -> Frame | None:
        """The place in the user's code that made the call."""
        return site_of(self.call)

    @property
    def quote(self) -> str:
        """Its record in one line: its number, what was called, with what, how far it is."""
        call = self.call
        number = f"record {call.order}: " if call.order is not None else ""
        seq = f" #{call.seq}" if call.seq is not None else ""
        peer = f" peer {call.peer}" if call.peer is not None else ""
        peer += f" tag {call.tag}" if call.tag else ""
        shapes = " ".join(str(list(shape)) for shape in (call.input_sizes or ())[:4])
        types = ",".join(dict.fromkeys(call.dtypes))
        state = {CallState.UNKNOWN: "", CallState.INSIDE: "seen in its stack"}.get(
            call.state, call.state.name.lower()
        )
        of = f"of {self.group.name}" if self.group is not None else ""
        parts = (f"{number}{call.op or 'a call'}{seq}{peer}", of, shapes, types, state)
        return " ".join(part for part in parts if part)


Pending = Mapping[int, tuple[IssuedCall, ...]]
"""The pending calls of each rank that has any."""


def call_ref(group: GroupCalls | None, call: Call) -> CallRef:
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
    """Return the place in the user's code that made a call."""
    return user_frame(call.frames)


def pending_calls(job: JobCalls) -> tuple[Pending, tuple[Disagreement, ...]]:
    """Find what holds each rank up, and where its stack disagrees with its records."""
    recorded: dict[int, list[IssuedCall]] = defaultdict(list)
    for group in job.groups:
        furthest = _furthest(group)
        for rank, progress in group.progress.items():
            if furthest is None:
                recorded[rank] += _unfinished(group, progress)
            elif rank in furthest:
                last = progress.enqueued or 0
                call = progress.calls.get(last, Call(op="", seq=last))
                recorded[rank].append(issued(group, progress, call))
    pending: dict[int, tuple[IssuedCall, ...]] = {}
    disagreements: list[Disagreement] = []
    for rank in recorded.keys() | job.stacks.keys():
        calls, differs = _with_stack(job, rank, _oldest(recorded.get(rank, [])))
        disagreements += differs
        if calls:
            pending[rank] = calls
    return pending, tuple(disagreements)


def last_calls(job: JobCalls) -> dict[int, IssuedCall]:
    """Return the call that each rank issued last."""
    last: dict[int, IssuedCall] = {}
    for group in job.groups:
        for rank, progress in group.progress.items():
            calls = (*progress.p2p, *progress.calls.values())
            if not calls:
                continue
            newest = max(calls, key=lambda call: (_age(call), call.seq or 0))
            if rank not in last or _age(newest) >= _age(last[rank].call):
                last[rank] = issued(group, progress, newest, inside=False)
    return last


def _age(call: Call) -> float:
    """Order calls of one rank in time; the record number is surer than the clock."""
    return float(call.order) if call.order is not None else (call.created_at or 0.0)


def issued(
    group: GroupCalls | None,
    progress: GroupProgress,
    call: Call,
    *,
    inside: bool = True,
    batch: tuple[Call, ...] = (),
) -> IssuedCall:
    """Return a call of a rank on a group."""
    return IssuedCall(
        rank=progress.rank,
        group=group,
        call=call,
        source=progress.source,
        inside=inside,
        batch=batch,
    )


def _unfinished(group: GroupCalls, progress: GroupProgress) -> list[IssuedCall]:
    """List the first unfinished collective and the first unfinished batch of sends and receives."""
    pending = []
    collectives = [c for c in progress.calls.values() if c.state is not CallState.COMPLETED]
    if collectives:
        first = min(collectives, key=lambda call: call.seq or 0)
        pending.append(issued(group, progress, first))
    elif progress.exact and progress.behind:
        unnamed = Call(op="", seq=(progress.completed or 0) + 1, state=CallState.SCHEDULED)
        pending.append(issued(group, progress, unnamed))
    p2p = [call for call in progress.p2p if call.state is not CallState.COMPLETED]
    if p2p:
        batch = tuple(call for call in p2p if call.seq == p2p[0].seq)
        pending.append(issued(group, progress, p2p[0], batch=batch))
    return pending


def _furthest(group: GroupCalls) -> frozenset[int] | None:
    """Return the ranks ahead of others, which wait where no source records the end of calls.

    None: ends are recorded, and each rank speaks for itself.
    """
    ranks = group.progress.values()
    known = [own for own in ranks if own.known]
    calls = (call for own in known for call in (*own.calls.values(), *own.p2p))
    told = any(call.state is not CallState.UNKNOWN for call in calls)
    if told or any(own.completed is not None for own in known):
        return None
    counts = {s.rank: s.enqueued for s in ranks if s.enqueued is not None}
    if len(set(counts.values())) < 2:
        return frozenset()
    furthest = max(counts.values())
    return frozenset(rank for rank, count in counts.items() if count == furthest)


def _oldest(pending: Sequence[IssuedCall]) -> tuple[IssuedCall, ...]:
    """Keep the call that was issued first, and those whose place in the order is not known."""
    placed = [each for each in pending if each.call.order is not None]
    rest = [each for each in pending if each.call.order is None]
    first = sorted(placed, key=lambda each: each.call.order or 0)[:1]
    if not first and len(rest) > 1 and all(each.call.created_at is not None for each in rest):
        rest = [min(rest, key=lambda each: each.call.created_at or 0)]
    return (*first, *rest)


def _with_stack(
    job: JobCalls, rank: int, pending: tuple[IssuedCall, ...]
) -> tuple[tuple[IssuedCall, ...], list[Disagreement]]:
    """Add what a stack shows: it sees what recorders do not record (sends over gloo)."""
    track = job.stacks.get(rank)
    calls = track.calls if track is not None else ()
    inside = next((call for call in calls if call.state is CallState.INSIDE), None)
    if track is None or inside is None or not inside.op:
        return pending, []
    if any(family(each.call.op) == family(inside.op) for each in pending):
        return pending, []
    if not pending or (inside.p2p and not any(each.call.p2p for each in pending)):
        shown = track.group if track.group.ranks and not track.group.inferred else None
        call = IssuedCall(rank=rank, group=None, call=inside, source=track.source, shown_on=shown)
        return (call,), []
    believed = pending[0]
    disagreement = Disagreement(
        rank=rank,
        group=believed.ref.group,
        what="the call it is in",
        believed=str(believed.ref),
        other=f"its stack shows {inside.op}",
        sources=tuple(s for s in (believed.source, track.source) if s is not None),
    )
    return pending, [disagreement]

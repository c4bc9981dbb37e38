"""What ranks did in time: lanes of ranks that did the same, their calls, the last common one."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives.groups import GroupCalls
from whyhang.analyzer.collectives.pending import call_ref
from whyhang.analyzer.facts import Call, CallState, LastLine, fold, grouped
from whyhang.analyzer.report import Event, Lane, LaneCall, ProcessGroup, RankRow, Timeline
from whyhang.analyzer.reports.contents.story import OTHER_CLOCK

MAX_LANES = 24
MAX_CALLS = 60
MAX_GROUPS = 2000
MAX_NAMES = 8
SPACES = {"torch", "nccl", "fingerprint"}
"""Spaces whose numbers count all calls of a group."""

Issued: TypeAlias = tuple[GroupCalls, Call]


def process_groups(case: Case) -> tuple[ProcessGroup, ...]:
    """Return the process groups that records show, the largest first."""
    groups = sorted(case.graph.calls.groups, key=lambda g: (-len(g.members), g.members, g.name))
    return tuple(_process_group(g) for g in groups if g.space in SPACES)[:MAX_GROUPS]


def _process_group(group: GroupCalls) -> ProcessGroup:
    of_ranks = group.progress
    seen = {rank: of_ranks[rank] for rank in group.members if rank in of_ranks}
    completed = [own.completed for own in seen.values() if own.completed is not None]
    known = {rank: own.enqueued for rank, own in seen.items() if own.enqueued is not None}
    last = max(known.values(), default=None)
    return ProcessGroup(
        name=group.name,
        ranks=fold(group.members),
        size=len(group.members),
        completed=min(completed) if completed and len(completed) == len(group.members) else None,
        entered=last,
        behind=fold(rank for rank, number in known.items() if last is not None and number < last),
        unseen=fold(rank for rank in group.members if rank not in known),
    )


def timeline(
    case: Case,
    rows: Sequence[RankRow],
    events: Sequence[Event],
    start: float | None,
    culprits: Iterable[int],
) -> Timeline:
    """Lay out in time what the rows of a report did; ``start`` is second 0 of the events."""
    issued = _issued(case)
    if not issued and not events:
        return Timeline()
    if start is None:
        times = [c.created_at for own in issued.values() for _, c in own[:1] if c.created_at]
        start = min(times, default=None)
    end = _end(case, start, events)
    last = _last_common(case, start)
    begun = last.start if last is not None else None
    return Timeline(
        start=start,
        end=end,
        last_common=last,
        gap=round(end - begun, 3) if end is not None and begun is not None else None,
        lanes=_lanes(case, rows, events, issued, start, frozenset(culprits)),
    )


def _issued(case: Case) -> dict[int, list[Issued]]:
    issued: dict[int, list[Issued]] = defaultdict(list)
    for group in case.graph.calls.groups:
        if group.space in SPACES:
            for rank, progress in group.progress.items():
                issued[rank] += ((group, call) for call in progress.calls.values())
                issued[rank] += ((group, call) for call in progress.p2p)
    for own in issued.values():
        own.sort(key=_order)
    return issued


def _order(issued: Issued) -> tuple[float, float, int]:
    call, never = issued[1], float("inf")
    order = float(call.order) if call.order is not None else never
    return order, call.created_at or never, call.seq or 0


def _end(case: Case, start: float | None, events: Sequence[Event]) -> float | None:
    """Return when the ranks were last seen or heard of, after the start."""
    if start is None:
        return None
    times = [dump.taken_at for member in case.job.members for dump in member.dumps[-1:]]
    times += [process.taken_at for member in case.job.members for process in member.processes[-1:]]
    times += [line.time for line in case.job.of(LastLine)]
    times += [call.given_up_at for track in case.job.tracks for call in track.calls]
    after = [time - start for time in times if time is not None and 0 <= time - start < OTHER_CLOCK]
    after += [event.seconds for event in events if event.seconds is not None]
    return round(max(after), 3) if after else None


def _last_common(case: Case, start: float | None) -> LaneCall | None:
    """Return the last call that all ranks of the largest group have completed.

    Where no group holds half of the ranks, such a call says nothing of the job.
    """
    half = len(case.job.members) / 2
    groups = (g for g in case.graph.calls.groups if g.space in SPACES and len(g.members) >= half)
    for group in sorted(groups, key=lambda group: -len(group.members)):
        seq = _process_group(group).completed
        if seq:
            calls = [p.calls[seq] for p in group.progress.values() if seq in p.calls]
            call = next((call for call in calls if call.op), Call(op="", seq=seq))
            return _call(group, call, calls, start)
    return None


def _call(group: GroupCalls, call: Call, alike: Iterable[Call], start: float | None) -> LaneCall:
    times = [each.created_at for each in alike if each.created_at is not None]
    ended = [each.given_up_at for each in alike if each.given_up_at is not None]

    def after(time: float) -> float | None:
        return round(time - start, 6) if start is not None else None

    ref = call_ref(group, call)
    return LaneCall(
        name=str(ref),
        group=group.name,
        op=call.op,
        seq=call.seq,
        state="completed" if call.state is CallState.COMPLETED
        else "unknown" if call.state is CallState.UNKNOWN else "pending",
        start=after(min(times)) if times else None,
        latest=after(max(times)) if len(times) > 1 else None,
        end=after(max(ended)) if ended else None,
    )  # fmt: skip


def _lanes(
    case: Case,
    rows: Sequence[RankRow],
    events: Sequence[Event],
    issued: Mapping[int, list[Issued]],
    start: float | None,
    culprits: frozenset[int],
) -> tuple[Lane, ...]:
    """Put rows that did the same on one lane, culprits first, then by the lowest rank."""
    of_rank: dict[int | None, list[int]] = defaultdict(list)
    for number, event in enumerate(events):
        for rank in event.ranks:
            of_rank[rank].append(number)

    def by_state(row: RankRow) -> tuple[Hashable, ...]:
        return row.rank in culprits, row.state

    def by_events(row: RankRow) -> tuple[Hashable, ...]:
        return (*by_state(row), tuple(of_rank.get(row.rank, ())))

    def by_calls(row: RankRow) -> Hashable:
        return (*by_events(row), _furthest(issued.get(-1 if row.rank is None else row.rank, ())))

    folded = [*grouped(rows, by_calls).values()]
    for key in (by_events, by_state):
        if len(folded) > MAX_LANES:
            folded = [*grouped(rows, key).values()]
    folded.sort(key=lambda own: own[0].rank not in culprits)
    lanes = []
    for own in folded:
        ranks = [row.rank for row in own if row.rank is not None]
        lanes.append(
            Lane(
                ranks=fold(ranks),
                count=len(own),
                state=own[0].state,
                activity=own[0].activity,
                names=tuple(row.name for row in own if row.rank is None)[:MAX_NAMES],
                culprit=own[0].rank in culprits,
                calls=_calls(case, ranks, issued, start),
                events=tuple(sorted({n for rank in ranks for n in of_rank.get(rank, ())})),
            )
        )
    return tuple(lanes)


def _furthest(issued: Iterable[Issued]) -> Hashable:
    """Return how far a rank came with each operation, of whichever group of that description."""
    last: dict[tuple[str, str], tuple[int, int]] = {}
    for group, call in issued:
        if not call.p2p:
            last[group.pg.description or group.pg.name, call.op] = (call.seq or 0, call.state)
    return tuple(sorted(last.items()))


def _calls(
    case: Case,
    ranks: Sequence[int],
    issued: Mapping[int, list[Issued]],
    start: float | None,
) -> tuple[LaneCall, ...]:
    """Return the last calls of one rank of a lane, with when the others entered the same."""
    shown = next((rank for rank in ranks if rank in issued), None)
    if shown is None:
        return ()
    whole = _whole(case, shown) or issued[shown]
    kept = sorted(whole, key=_order)[-MAX_CALLS:]
    wanted = {(group.index, call.seq) for group, call in kept if not call.p2p}
    alike: dict[tuple[int, int | None], list[Call]] = defaultdict(list)
    for rank in ranks:
        for group, call in issued.get(rank, ()):
            if not call.p2p and (group.index, call.seq) in wanted:
                alike[group.index, call.seq].append(call)
    return tuple(
        _call(group, call, [call] if call.p2p else alike[group.index, call.seq] or [call], start)
        for group, call in kept
    )


def _whole(case: Case, rank: int) -> list[Issued]:
    """Read all calls of a rank that its recorder has, where that is more than what is held."""
    calls: list[Issued] = []
    for group in case.graph.calls.groups:
        progress = group.progress.get(rank)
        if group.space in SPACES and progress is not None:
            detail = next((t.detail for t in progress.tracks if t.detail is not None), None)
            own = detail() if detail is not None else (*progress.calls.values(), *progress.p2p)
            calls += ((group, call) for call in own)
    return calls

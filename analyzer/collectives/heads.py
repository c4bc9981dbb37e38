"""Where each rank stands: its head, the oldest call it has issued and not finished.

On one device calls of one group run in the order of issue, and calls of different groups wait
for each other through the compute stream, so the oldest unfinished call is what holds a rank
up; later ones are queued behind it. Sources that do not tell the order over groups give a
rank one head per group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.collectives.book import Book, Standing, Table
from whyhang.analyzer.collectives.compare import family
from whyhang.analyzer.collectives.graph import CallRef
from whyhang.analyzer.collectives.records import Disagreement, Spot
from whyhang.analyzer.collectives.words import record
from whyhang.analyzer.facts import Call, CallState, Frame, Record, Source
from whyhang.analyzer.stacks.usercode import user_frame


class Head(Record):
    """The call that holds ``rank`` up. ``table`` is its place in the book's tables.

    ``batch`` are all sends and receives that were launched with it.
    """

    rank: int
    table: int
    call: Call
    source: Source | None
    batch: tuple[Call, ...] = ()


class Heads(Record):
    """The heads of all ranks, where they stand in words, and what sources disagree on."""

    of: dict[int, tuple[Head, ...]]
    spots: dict[int, Spot]
    doubts: tuple[Disagreement, ...]


def find_heads(book: Book) -> Heads:
    """Find what holds each rank up; ranks with nothing unfinished have no head."""
    candidates: dict[int, list[Head]] = defaultdict(list)
    for number, table in enumerate(book.tables):
        ahead = _ahead(table)
        for rank, standing in table.standings.items():
            if ahead is None:
                candidates[rank] += _unfinished(number, standing)
            elif rank in ahead:
                candidates[rank].append(_furthest(number, standing))
    of: dict[int, tuple[Head, ...]] = {}
    doubts: list[Disagreement] = []
    for rank in candidates.keys() | book.stacks.keys():
        heads, doubt = _with_stack(book, rank, _oldest(candidates.get(rank, [])))
        doubts += doubt
        if heads:
            of[rank] = heads
    spots = _last_calls(book)
    spots.update((rank, _inside(book, heads[0])) for rank, heads in of.items())
    return Heads(of=of, spots=spots, doubts=tuple(doubts))


def _last_calls(book: Book) -> dict[int, Spot]:
    """Say for each rank what it called last."""
    last: dict[int, tuple[float, Table, Call, Source | None]] = {}
    for table in book.tables:
        for rank, standing in table.standings.items():
            newest = _newest(standing)
            if newest is not None and (rank not in last or _age(newest) >= last[rank][0]):
                last[rank] = (_age(newest), table, newest, standing.source)
    return {
        rank: Spot(
            rank=rank,
            call=refer(table, call),
            inside=False,
            site=site_of(call),
            source=source,
            quote=record(call, table.name),
        )
        for rank, (_, table, call, source) in last.items()
    }


def refer(table: Table | None, call: Call) -> CallRef:
    """Name a call of a table."""
    return CallRef(
        op=call.op or None,
        group=table.name if table else "",
        seq=call.seq,
        p2p=call.p2p,
        peer=call.peer,
        of=table.group if table else None,
    )


def site_of(call: Call) -> Frame | None:
    """Find the place in the user's code that made a call."""
    return user_frame(call.frames)


def _unfinished(number: int, standing: Standing) -> list[Head]:
    """List the first unfinished collective and the first unfinished batch of sends and receives."""
    source = standing.source
    found = []
    waiting = [c for c in standing.calls.values() if c.state is not CallState.COMPLETED]
    if waiting:
        first = min(waiting, key=lambda call: call.seq or 0)
        found.append(Head(rank=standing.rank, table=number, call=first, source=source))
    elif _behind_itself(standing) and standing.exact:
        unnamed = Call(op="", seq=(standing.completed or 0) + 1, state=CallState.SCHEDULED)
        found.append(Head(rank=standing.rank, table=number, call=unnamed, source=source))
    pairs = [call for call in standing.p2p if call.state is not CallState.COMPLETED]
    if pairs:
        batch = tuple(call for call in pairs if call.seq == pairs[0].seq)
        found.append(
            Head(rank=standing.rank, table=number, call=pairs[0], source=source, batch=batch)
        )
    return found


def _ahead(table: Table) -> frozenset[int] | None:
    """Where a source tells of no completion, only those ahead of others can be said to wait.

    None: completion is told, and each rank speaks for itself.
    """
    standings = table.standings.values()
    told = any(
        s.completed is not None
        or any(call.state is not CallState.UNKNOWN for call in (*s.calls.values(), *s.p2p))
        for s in standings
        if s.known
    )
    if told:
        return None
    counts = {s.rank: s.enqueued for s in standings if s.enqueued is not None}
    if len(set(counts.values())) < 2:
        return frozenset()
    furthest = max(counts.values())
    return frozenset(rank for rank, count in counts.items() if count == furthest)


def _furthest(number: int, standing: Standing) -> Head:
    last = standing.enqueued or 0
    call = standing.calls.get(last, Call(op="", seq=last))
    return Head(rank=standing.rank, table=number, call=call, source=standing.source)


def _behind_itself(standing: Standing) -> bool:
    return (
        standing.enqueued is not None
        and standing.completed is not None
        and standing.enqueued > standing.completed
    )


def _oldest(found: Sequence[Head]) -> tuple[Head, ...]:
    """Keep the head that was issued first, and those whose place in the order is not told."""
    placed = [head for head in found if head.call.order is not None]
    placed.sort(key=lambda head: head.call.order or 0)
    rest = [head for head in found if head.call.order is None]
    if not placed and len(rest) > 1 and all(head.call.created_at is not None for head in rest):
        rest = [min(rest, key=lambda head: head.call.created_at or 0)]
    return (*placed[:1], *rest)


def _newest(standing: Standing) -> Call | None:
    if standing.p2p or standing.calls:
        calls = (*standing.p2p, *standing.calls.values())
        return max(calls, key=lambda call: (_age(call), call.seq or 0))
    return None


def _age(call: Call) -> float:
    """Order calls of one rank in time; the record number is surer than the clock."""
    return float(call.order) if call.order is not None else (call.created_at or 0.0)


def _stack_call(book: Book, rank: int) -> Call | None:
    """Give the call that a stack shows the rank in."""
    track = book.stacks.get(rank)
    calls = track.calls if track is not None else ()
    return next((call for call in calls if call.state is CallState.INSIDE), None)


def _with_stack(
    book: Book, rank: int, heads: tuple[Head, ...]
) -> tuple[tuple[Head, ...], list[Disagreement]]:
    """Let a stack have its say: it sees what recorders do not record (sends over gloo)."""
    inside = _stack_call(book, rank)
    track = book.stacks.get(rank)
    if inside is None or track is None or not inside.op:
        return heads, []
    if any(family(head.call.op) == family(inside.op) for head in heads):
        return heads, []
    if inside.p2p and not any(head.call.p2p for head in heads):
        return (Head(rank=rank, table=-1, call=inside, source=track.source),), []
    if not heads:
        return (Head(rank=rank, table=-1, call=inside, source=track.source),), []
    believed = refer(book.tables[heads[0].table], heads[0].call)
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


def _inside(book: Book, head: Head) -> Spot:
    table = book.tables[head.table] if head.table >= 0 else None
    return Spot(
        rank=head.rank,
        call=refer(table, head.call),
        inside=True,
        site=site_of(head.call),
        source=head.source,
        quote=record(head.call, table.name if table is not None else ""),
    )

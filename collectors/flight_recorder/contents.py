"""What the entries of a dump and its ``pg_status`` say together: calls, as one rank issued them.

Members of a coalesced batch stay ``scheduled`` for ever, and the entry that ends the batch tells
how far it is. The members get its state; a batch without an end was never closed. Sends and
receives carry ranks *within the group* in their name, and the number of the last collective
beside their own.

Asked for what is active, torch leaves out every entry whose end it has seen. The members of a
batch have none of their own, so those of finished batches stay in the dump as if they were under
way, without the entry that ended them. What follows them tells: records are numbered without a
gap, so where the one behind a batch is not there, it was the batch's end, and finished.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from whyhang.analyzer.facts import Call, CallState, grouped, replace
from whyhang.collectors.flight_recorder.entries import GLOO, Row, Shapes, read_rows
from whyhang.collectors.flight_recorder.excerpt import DumpExcerpt
from whyhang.collectors.flight_recorder.groups import (
    by_number,
    groups_of,
    status_by_id,
    statuses_of,
)

KEPT_COMPLETED = 4
"""Completed calls that a track keeps before its first unfinished one, where more can be read
again; without that it keeps ``KEPT_AT_MOST``."""

KEPT_AT_MOST = 64

KEPT_UNFINISHED = 64
"""Unfinished calls that a track keeps, the oldest and the newest."""


def calls(rows: Sequence[Row], ranks: tuple[int, ...] | None) -> list[Call]:
    """Return the calls of one group, in the order of the rows, one for each batch of collectives.

    ``ranks`` are the group's global ranks, to name peers; without them only the default
    group's are known, whose ranks are global.
    """
    issued: list[Call] = []
    # Operations and stacks of sends and receives that are done in batches which end.
    batched: set[tuple[str, int]] = set()
    for _, block in groupby(rows, key=_block):
        *members, last = block
        if last.name.ends_batch:
            batched.update((row.op, id(row.frames)) for row in members if row.p2p and row.frames)
            issued += _ended(members, last, ranks)
            continue
        # Entries that share a number are of one batch. A send or receive alone is taken for one
        # if from the same line of code others were batches.
        unclosed = bool(members) or (last.op, id(last.frames)) in batched
        unclosed = unclosed and last.state is not CallState.COMPLETED
        issued += [_call(row, ranks, unclosed=unclosed) for row in (*members, last)]
    return issued


def _block(row: Row) -> tuple[bool, int | None, object]:
    """Return what rows of one coalesced block share; an entry without a number stands alone."""
    return row.p2p, row.seq, None if row.seq is not None else id(row)


def _ended(members: Sequence[Row], end: Row, ranks: tuple[int, ...] | None) -> list[Call]:
    """Return the sends and receives of a batch, or its collectives as one call."""
    if not members:
        return [_call(end, ranks)]
    if end.p2p:
        return [_call(replace(row, state=end.state), ranks) for row in members]
    first = members[0]
    named = first if end.op == "coalesced" else end
    whole = replace(
        end,
        op=named.op,
        name=named.name,
        input_sizes=_joined(row.input_sizes for row in (*members, end)),
        output_sizes=_joined(row.output_sizes for row in (*members, end)),
        dtypes=first.dtypes or end.dtypes,
        created_at=first.created_at,
        frames=first.frames or end.frames,
        order=first.order,
    )
    return [_call(whole, ranks)]


def _joined(parts: Iterable[Shapes | None]) -> Shapes:
    return tuple(shape for part in parts if part for shape in part)


def _call(row: Row, ranks: tuple[int, ...] | None, *, unclosed: bool = False) -> Call:
    peer = _peer(row, ranks)
    same = peer is None and not unclosed
    return row if same else replace(row, peer=peer, unclosed=unclosed)


def _peer(row: Row, ranks: tuple[int, ...] | None) -> int | None:
    peer = row.name.peer
    if peer is None:
        return None
    if ranks is not None:
        return ranks[peer] if peer < len(ranks) else None
    return peer if row.group[1] == "default_pg" or row.group[0] == "0" else None


def worth_keeping(calls: Sequence[Call], completed: int) -> tuple[Call, ...]:
    """Return the unfinished calls (the oldest and newest of very many) and the last finished."""
    unfinished = [call for call in calls if call.state is not CallState.COMPLETED]
    if len(unfinished) > KEPT_UNFINISHED:
        unfinished = unfinished[: KEPT_UNFINISHED - 8] + unfinished[-8:]
    finished = [call for call in calls if call.state is CallState.COMPLETED]
    if len(finished) > completed:
        first = unfinished[0].order if unfinished else None
        before = [c for c in finished if first is None or c.order is None or c.order < first]
        finished = before[-completed:] + finished[len(before) :][-completed:]
    return tuple(sorted((*finished, *unfinished), key=lambda call: call.order or 0))


def with_ends_of_batches(rows: Sequence[Row], enqueued: Mapping[str, int | None]) -> list[Row]:
    """Mark members of batches that have ended as completed, in a dump of active calls only.

    ``enqueued`` is the number of the last call on each group that was launched as a whole.
    """
    launches: dict[tuple[str, int], list[Row]] = defaultdict(list)
    orders = {row.order for row in rows if row.order is not None}
    for row in rows:
        if row.p2p and row.seq is not None and row.order is not None:
            launches[row.group[0], row.seq].append(row)
    batched = {name for (name, _), members in launches.items() if len(members) > 1}
    ended: set[tuple[str, int | None]] = set()
    for (name, number), members in launches.items():
        last = members[-1]
        end = (last.order or 0) + 1
        if name not in batched or last.name.ends_batch or end in orders:
            continue
        if end <= max(orders) or (enqueued.get(name) or 0) >= number:
            ended.add((name, number))
    return [
        replace(row, state=CallState.COMPLETED)
        if row.p2p and (row.group[0], row.seq) in ended
        else row
        for row in rows
    ]


SMALLEST_RING = 10
"""Fewer records than these are no ring that was too small, but a file made by hand."""


class Contents:
    """The rows and groups of a dump, and the questions that are asked of them."""

    def __init__(self, dump: DumpExcerpt) -> None:
        self.dump = dump
        self.rows = _rows(dump)
        self.by_group = grouped(self.rows, lambda row: row.group[0])
        self.groups = groups_of(dump.top, self.rows)
        self.statuses = statuses_of(dump.top, self.rows, self.groups)
        self.first = next(iter(read_rows([dump.first])), None)
        self.over_gloo = bool(self.rows) and all(row.name.library == GLOO for row in self.rows)

    def lost(self) -> int:
        """Return how many records the ring buffer overwrote before the first that is left.

        A dump of active calls only begins with an unfinished one, of which nothing can be said.
        """
        if self.first is None or self.first.state is not CallState.COMPLETED:
            return 0
        return self.first.order or 0

    def overwritten(self) -> bool:
        """Return whether a wrapped ring lost calls that are not finished: then its oldest is none.

        ``pg_status`` tells up to which number calls are finished. Where a group has both, it may
        count collectives or sends, and over gloo it counts neither. Without it, a ring that begins
        with an unfinished call may have held older ones.
        """
        first = self.first
        if first is None or not first.order:
            return False
        if "pg_status" not in self.dump.top:  # before torch 2.5
            began = first.p2p or first.retired or first.state is CallState.COMPLETED
            return not began and len(self.dump.entries) >= SMALLEST_RING
        if not self.dump.whole or self.over_gloo:
            return False
        for name, status in self.statuses.items():
            rows = self.by_group.get(name, [])
            done = {row.seq: row.state is CallState.COMPLETED for row in rows}  # of a batch its end
            open_ = [n for n, is_done in done.items() if n is not None and not is_done]
            oldest = min(open_, default=None)
            if len({row.p2p for row in rows}) != 1 or oldest is None or status.completed is None:
                continue
            if oldest > status.completed + 1 and oldest - 1 not in done:
                return True
        return False

    def of_active_calls(self) -> bool:
        """Return whether all calls but the open ones were left out, so that other groups are idle.

        A recorder that is switched off has no entries either, but then ``pg_status`` counts open
        calls.
        """
        statuses = status_by_id(self.dump.top).values()
        if not self.dump.whole or not any(status.completed for status in statuses):
            return False
        if any(row.name.library == GLOO or row.state is CallState.COMPLETED for row in self.rows):
            return False
        return bool(self.rows) or all(status.completed == status.enqueued for status in statuses)

    def unrecorded(self) -> bool:
        """Return whether there are calls that gloo makes and does not record: sends and receives.

        ``pg_status`` counts them with the collectives once they are done. Groups without any entry
        leave a gap in the numbers that the process gives to its groups.
        """
        if not self.over_gloo:
            return False
        last = {
            name: max(row.collective or 0 for row in rows) for name, rows in self.by_group.items()
        }
        ids = {row.pg_id for row in self.rows if row.pg_id is not None}
        return bool(ids and len(ids) <= max(ids)) or any(
            name in last and (status.enqueued or 0) > last[name]
            for name, status in self.statuses.items()
        )


def calls_by_group(dump: DumpExcerpt) -> dict[str, tuple[Call, ...]]:
    """Return every call that the dump holds, by the name of its group."""
    contents = Contents(dump)
    ranks = {name: group.ranks for name, group in contents.groups.items()}
    return {name: tuple(calls(own, ranks.get(name))) for name, own in contents.by_group.items()}


def _rows(dump: DumpExcerpt) -> list[Row]:
    rows = read_rows(dump.entries)
    first = dump.entries[0] if dump.entries else None
    if isinstance(first, dict) and "process_group" not in first:  # torch 2.3: by number alone
        names = by_number(dump.top, rows)
        rows = [replace(row, group=names.get(row.pg_id, row.group)) for row in rows]
    if any(row.state is CallState.COMPLETED for row in rows):
        return rows
    statuses = statuses_of(dump.top, rows, groups_of(dump.top, rows))
    return with_ends_of_batches(rows, {name: own.enqueued for name, own in statuses.items()})

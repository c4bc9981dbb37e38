"""What the entries of a dump and its ``pg_status`` say together."""

from __future__ import annotations

from collections import defaultdict

from whyhang.analyzer.facts import Call, CallState, replace
from whyhang.collectors.flight_recorder.calls import calls, with_ends_of_batches
from whyhang.collectors.flight_recorder.entries import GLOO, Row, group_of, read_rows
from whyhang.collectors.flight_recorder.excerpt import Dump
from whyhang.collectors.flight_recorder.groups import (
    by_number,
    groups_of,
    numbered,
    status_by_id,
    statuses_of,
)

SMALLEST_RING = 10
"""Fewer records than these are no ring that was too small, but a file made by hand."""


class Contents:
    """The rows and groups of a dump, and the questions that are asked of them."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.rows = _rows(dump)
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
        numbers: dict[str, set[int | None]] = defaultdict(set)
        waiting: dict[str, set[int | None]] = defaultdict(set)
        kinds: dict[str, set[bool]] = defaultdict(set)
        for row in self.rows:
            name = row.group[0]
            kinds[name].add(row.p2p)
            numbers[name].add(row.launch)
            if row.state is CallState.COMPLETED:
                waiting[name].discard(row.launch)  # the end of a batch
            else:
                waiting[name].add(row.launch)
        for name, status in self.statuses.items():
            oldest = min((n for n in waiting[name] if n is not None), default=None)
            if len(kinds[name]) != 1 or oldest is None or status.completed is None:
                continue
            if oldest > status.completed + 1 and oldest - 1 not in numbers[name]:
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
        last: dict[str, int] = defaultdict(int)
        for row in self.rows:
            last[row.group[0]] = max(last[row.group[0]], row.seq or 0)
        ids = {row.pg_id for row in self.rows if row.pg_id is not None}
        return bool(ids and len(ids) <= max(ids)) or any(
            name in last and (status.enqueued or 0) > last[name]
            for name, status in self.statuses.items()
        )


def calls_of_group(dump: Dump, name: str) -> tuple[Call, ...]:
    """Return every call of one group that the dump holds."""
    entries = [entry for entry in dump.entries if isinstance(entry, dict)]
    if numbered(entries) or all(entry.get("state") != "completed" for entry in entries):
        rows = _rows(dump)  # entries of other groups tell of this one
    else:
        rows = read_rows(entry for entry in entries if name in group_of(entry))
    rows = [row for row in rows if row.group[0] == name]
    group = groups_of(dump.top, rows).get(name)
    return tuple(calls(rows, group.ranks if group else None))


def _rows(dump: Dump) -> list[Row]:
    rows = read_rows(dump.entries)
    if numbered(dump.entries):
        names = by_number(dump.top, rows)
        rows = [replace(row, group=names.get(row.pg_id, row.group)) for row in rows]
    if any(row.state is CallState.COMPLETED for row in rows):
        return rows
    statuses = statuses_of(dump.top, rows, groups_of(dump.top, rows))
    return with_ends_of_batches(rows, {name: own.enqueued for name, own in statuses.items()})

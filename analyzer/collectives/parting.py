"""Where ranks part, if nothing tells of the end of any call.

NCCL's lines announce calls and never say that one is done. But ranks that announced different
calls under one number cannot get past it: what comes before is over, and this one is not. Lines of
one file are compared by their reader; ranks that write to a file each are compared here.
"""

from __future__ import annotations

from collections.abc import Mapping

from whyhang.analyzer.collectives.book import Standing, Table
from whyhang.analyzer.collectives.compare import split
from whyhang.analyzer.facts import Call, CallState, replace

MAX_COMPARED = 100_000  # calls of all ranks, of which only the latest are compared otherwise
AROUND = 2  # calls kept on both sides of the first difference


def parted(table: Table) -> Table:
    """Mark what is over and what is not, where the calls of a table's ranks differ."""
    if table.space != "nccl" or table.inferred or not _nothing_told(table):
        return table
    latest = {rank: dict(own.calls) for rank, own in table.standings.items()}
    size = sum(own.enqueued or 0 for own in table.standings.values())
    if size > MAX_COMPARED and _first_split(latest, table) is None:
        return table
    whole = {rank: _all_calls(own) for rank, own in table.standings.items()}
    seq = _first_split(whole, table)
    if seq is None:
        return table
    standings = {rank: _marked(own, whole[rank], seq) for rank, own in table.standings.items()}
    return replace(table, standings=standings)


def _nothing_told(table: Table) -> bool:
    known = [own for own in table.standings.values() if own.calls]
    return len(known) > 1 and all(
        own.completed is None and all(c.state is CallState.UNKNOWN for c in own.calls.values())
        for own in known
    )


def _all_calls(standing: Standing) -> dict[int, Call]:
    found = dict(standing.calls)
    for track in standing.tracks:
        if track.detail is not None:
            found.update((c.seq, c) for c in track.detail() if c.seq is not None and not c.p2p)
    return found


def _first_split(calls: Mapping[int, Mapping[int, Call]], table: Table) -> int | None:
    """Find the first number under which two ranks called different things."""
    numbers = sorted({seq for own in calls.values() for seq in own})
    for seq in numbers:
        here = {rank: own[seq] for rank, own in calls.items() if seq in own}
        if len(here) > 1 and split(here, table.members) is not None:
            return seq
    return None


def _marked(standing: Standing, calls: Mapping[int, Call], seq: int) -> Standing:
    near = {
        number: replace(call, state=CallState.COMPLETED if number < seq else CallState.SCHEDULED)
        for number, call in calls.items()
        if seq - AROUND <= number <= seq + AROUND
    }
    return replace(standing, calls=near, completed=min(seq - 1, standing.enqueued or 0))

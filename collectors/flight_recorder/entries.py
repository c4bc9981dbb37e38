"""From the entries of a flight recorder to calls, as one rank issued them.

Formats differ by version ("2.2" had ``seq_id``, "2.4" has ``collective_seq_id`` and
``p2p_seq_id``, ...); fields are looked for, versions are not compared. Sources:
``FlightRecorder.hpp`` and, before torch 2.8, ``TraceUtils.h`` of c10d.

What takes care here:

* gloo never leaves the state ``scheduled``; its finished calls are ``retired``. For NCCL,
  retired and not completed means timed out or aborted.
* Members of a coalesced batch stay ``scheduled`` for ever, and the entry that ends the batch
  tells how far it is. The members get its state; a batch without an end was never closed.
* Sends and receives carry ranks *within the group* in their name, and the number of the last
  collective beside their own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from whyhang.analyzer.facts import Call, CallState, Frame, Record, replace
from whyhang.collectors.flight_recorder.values import (
    dtypes,
    frames,
    join,
    number,
    sizes,
    text,
    time_created,
)

KEPT_COMPLETED = 4
"""Completed calls that a track keeps before its first unfinished one, where more can be read
again; without that it keeps ``KEPT_AT_MOST``."""

KEPT_AT_MOST = 64

KEPT_UNFINISHED = 64
"""Unfinished calls that a track keeps, the oldest and the newest."""

_OPS = {
    "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "all_reduce_barrier": "barrier",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "allreduce_coalesced": "all_reduce_coalesced",
    "allgather_coalesced": "all_gather_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
}
_STATES = {"completed": CallState.COMPLETED, "started": CallState.STARTED}
_P2P = re.compile(r"(?P<op>send|recv)(?: (?P<me>\d+)(?:->|<-)(?P<peer>\d+|\?))?$")
# These tell by their state; gloo and others without a hook for it tell by ``retired``.
_STATEFUL = re.compile(r"(?:nccl|rccl|xccl|hccl|mccl|cncl)")


class Name(Record):
    """A ``profiling_name`` taken apart: "nccl:send 0->3". Ranks are those within the group."""

    library: str
    op: str
    me: int | None = None
    peer: int | None = None

    @property
    def ends_batch(self) -> bool:
        """Whether this is the entry that ends a coalesced block."""
        return self.op.endswith("coalesced")


class Row(Record):
    """One entry, reduced to what is used. ``group`` is its (name, description)."""

    name: Name
    group: tuple[str, str]
    pg_id: int | None
    order: int | None
    seq: int | None
    p2p_seq: int | None
    p2p: bool
    state: CallState
    retired: bool
    created_at: float | None
    frames: tuple[Frame, ...]
    raw: dict[object, object]


def rows(entries: Iterable[object]) -> list[Row]:
    """Read entries; what is no entry is left out."""
    known: dict[int, Frame] = {}
    found = [_row(entry, known) for entry in entries if isinstance(entry, dict)]
    stateless = _stateless({row.name.library for row in found}, found)
    if not stateless:
        return found
    return [
        _with_state(row, CallState.COMPLETED if row.retired else CallState.SCHEDULED)
        if row.name.library in stateless
        else row
        for row in found
    ]


def calls(rows: Sequence[Row], ranks: tuple[int, ...] | None) -> list[Call]:
    """Make the calls of one group, in the order of the rows, one for each batch of collectives.

    ``ranks`` are the group's global ranks, to name peers; without them only the default
    group's are known, whose ranks are global.
    """
    found: list[Call] = []
    closed: set[tuple[str, int]] = set()  # what is done in batches that end, by operation and stack
    for _, group in groupby(rows, key=_launch):
        same = list(group)
        if same[-1].name.ends_batch:
            closed.update(_by_stack(row) for row in same[:-1] if row.p2p and row.frames)
            found += _batch(same, ranks)
        else:
            usually = len(same) == 1 and _by_stack(same[0]) in closed
            found += _batch(same, ranks, unclosed=usually)
    return found


def _by_stack(row: Row) -> tuple[str, int]:
    return row.name.op, id(row.frames)  # equal stacks are one object


def worth_keeping(calls: Sequence[Call], completed: int) -> tuple[Call, ...]:
    """Keep the unfinished calls (the oldest and newest of very many) and the last finished."""
    unfinished = [call for call in calls if call.state is not CallState.COMPLETED]
    if len(unfinished) > KEPT_UNFINISHED:
        unfinished = unfinished[: KEPT_UNFINISHED - 8] + unfinished[-8:]
    finished = [call for call in calls if call.state is CallState.COMPLETED]
    if len(finished) > completed:
        first = unfinished[0].order if unfinished else None
        before = [c for c in finished if first is None or c.order is None or c.order < first]
        finished = before[-completed:] + finished[len(before) :][-completed:]
    return tuple(sorted((*finished, *unfinished), key=lambda call: call.order or 0))


@functools.lru_cache(maxsize=4096)
def parse_name(profiling_name: str) -> Name:
    """Take "nccl:all_reduce" or "nccl:recv 3<-0" apart; the operation gets its torch name."""
    library, colon, rest = profiling_name.rpartition(":")
    if not colon:
        library, rest = "", profiling_name
    found = _P2P.match(rest)
    if found is not None:
        me, peer = found["me"], found["peer"]
        return Name(
            library=library,
            op=found["op"],
            me=int(me) if me else None,
            peer=int(peer) if peer and peer != "?" else None,
        )
    op = rest.partition(" ")[0]
    lower = op.lower()
    return Name(library=library, op=_OPS.get(lower, lower))


def _row(entry: dict[object, object], known: dict[int, Frame]) -> Row:
    name = parse_name(text(entry.get("profiling_name")))
    seq = number(entry.get("collective_seq_id", entry.get("seq_id")))
    # Before torch 2.4 there is no such field, and a batch of sends and receives one entry.
    p2p = entry.get("is_p2p", name.op in {"send", "recv"} or _nothing_in(name, entry)) is True
    return Row(
        name=name,
        group=named(entry),
        pg_id=number(entry.get("pg_id")),
        order=number(entry.get("record_id")),
        seq=seq,
        p2p_seq=number(entry.get("p2p_seq_id", entry.get("seq_id"))) if p2p else None,
        p2p=p2p,
        state=_STATES.get(text(entry.get("state")), CallState.SCHEDULED),
        retired=entry.get("retired") is True,
        created_at=time_created(entry),
        frames=frames(entry.get("frames"), known),
        raw=entry,
    )


def _nothing_in(name: Name, entry: Mapping[object, object]) -> bool:
    return name.op == "coalesced" and not entry.get("input_sizes")


def _stateless(libraries: set[str], found: Sequence[Row]) -> set[str]:
    """Name the libraries whose entries never leave ``scheduled`` though they finish."""
    telling = {row.name.library for row in found if row.state is not CallState.SCHEDULED}
    return {
        library
        for library in libraries
        if library == "gloo" or (library not in telling and not _STATEFUL.match(library))
    }


def _launch(row: Row) -> tuple[bool, int | None, object]:
    """Say what rows of one coalesced block share; an entry without a number stands alone."""
    shared = row.p2p_seq if row.p2p else row.seq
    return (row.p2p, shared, None if shared is not None else id(row.raw))


def _batch(same: list[Row], ranks: tuple[int, ...] | None, *, unclosed: bool = False) -> list[Call]:
    """Make calls of what was launched under one number.

    ``unclosed``: a send or receive alone is taken for a batch without an end, because from the
    same line of code others were batches.
    """
    end = same[-1] if same[-1].name.ends_batch else None
    members = [row for row in same if row is not end]
    if end is None:
        # Entries that share a number are of one block, and this one has no end.
        unclosed = unclosed or len(members) > 1
        unclosed = unclosed and members[-1].state is not CallState.COMPLETED
        return [_call(row, ranks, unclosed=unclosed) for row in members]
    if not members:
        return [_call(end, ranks)]
    if end.p2p:
        return [_call(_with_state(row, end.state), ranks) for row in members]
    whole = _call(end, ranks)
    return [_merged(whole, [_call(row, ranks) for row in members])]


def _merged(end: Call, members: Sequence[Call]) -> Call:
    """Make one call of a block of collectives: the end's name and state, all sizes."""
    first = members[0]
    return Call(
        op=end.op if end.op != "coalesced" else first.op,
        seq=end.seq,
        state=end.state,
        input_sizes=join(call.input_sizes for call in (*members, end)),
        output_sizes=join(call.output_sizes for call in (*members, end)),
        dtypes=first.dtypes or end.dtypes,
        created_at=first.created_at,
        frames=first.frames or end.frames,
        order=first.order,
    )


def _call(row: Row, ranks: tuple[int, ...] | None, *, unclosed: bool = False) -> Call:
    return Call(
        op=row.name.op,
        seq=row.p2p_seq if row.p2p else row.seq,
        state=row.state,
        p2p=row.p2p,
        peer=_peer(row, ranks),
        input_sizes=sizes(row.raw.get("input_sizes")),
        output_sizes=sizes(row.raw.get("output_sizes")),
        dtypes=dtypes(row.raw),
        created_at=row.created_at,
        frames=row.frames,
        order=row.order,
        unclosed=unclosed,
    )


def _peer(row: Row, ranks: tuple[int, ...] | None) -> int | None:
    peer = row.name.peer
    if peer is None:
        return None
    if ranks is not None:
        return ranks[peer] if peer < len(ranks) else None
    return peer if row.group[1] == "default_pg" or row.group[0] == "0" else None


def _with_state(row: Row, state: CallState) -> Row:
    return replace(row, state=state)


def named(entry: dict[object, object]) -> tuple[str, str]:
    """Read ``process_group``; before torch 2.4 there is only the number within the process."""
    group = entry.get("process_group")
    if isinstance(group, list | tuple) and len(group) == 2:
        name, description = group
        return _name_of_group(
            name if isinstance(name, str) else "",
            description if isinstance(description, str) else "",
        )
    own_number = number(entry.get("pg_id"))
    if own_number is None:
        return "", ""
    return str(own_number), "default_pg" if own_number == 0 else ""


@functools.lru_cache(maxsize=4096)
def _name_of_group(name: str, description: str) -> tuple[str, str]:
    return text(name), text(description)

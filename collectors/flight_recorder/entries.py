"""The entries of a flight recorder, read into rows. Nothing here raises.

Formats differ by version ("2.2" had ``seq_id``, "2.4" has ``collective_seq_id`` and
``p2p_seq_id``, ...); fields are looked for, versions are not compared. Sources:
``FlightRecorder.hpp`` and, before torch 2.8, ``TraceUtils.h`` of c10d.

A list that many entries share is read once, and no deeper than its field goes: what a crafted
dump takes grows with its size only. What is read is kept once for all ranks: thousands of dumps
of one job hold the same shapes and the same stacks.
"""

import functools
import re
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from whyhang.analyzer.facts import Call, CallState, Frame, Record, replace
from whyhang.collectors.ops import P2P, op_of
from whyhang.collectors.stacks.frames import NATIVE_SOURCES, shared

GLOO = "gloo"
MAX_TEXT = 4096
MAX_STACKS = 65536
MAX_DIMENSIONS = 16
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
T = TypeVar("T")

_STATES = {"completed": CallState.COMPLETED, "started": CallState.STARTED}
_P2P = re.compile(r"(send|recv)(?: (\d+)(?:->|<-)(?:(\d+)|\?))?$")
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


class Row(Call):
    """One entry: a call, and where it belongs. ``group`` is its (name, description).

    ``seq`` is shared by all members of a coalesced block; ``collective`` is the number of the
    group's last collective, for sends and receives too. ``frames`` are one object where stacks
    are equal.
    """

    name: Name = Name(library="", op="")
    group: tuple[str, str] = ("", "")
    pg_id: int | None = None
    collective: int | None = None
    retired: bool = False


def read_rows(entries: Iterable[object]) -> list[Row]:
    """Read entries; what is no entry is left out.

    gloo never leaves the state ``scheduled``; its finished calls are ``retired``. For NCCL,
    retired and not completed means timed out or aborted.
    """
    reader = _RowReader()
    rows = [reader.row(entry) for entry in entries if isinstance(entry, dict)]
    moving = {row.name.library for row in rows if row.state is not CallState.SCHEDULED}
    stateless = {
        library
        for library in {row.name.library for row in rows}
        if library == GLOO or (library not in moving and not _STATEFUL.match(library))
    }
    return [
        replace(row, state=CallState.COMPLETED if row.retired else CallState.SCHEDULED)
        if row.name.library in stateless
        else row
        for row in rows
    ]


class _RowReader:
    """Reads the entries of one dump; lists and frames that they share are read once."""

    def __init__(self) -> None:
        self._frames: dict[int, Frame] = {}
        self._stacks: dict[int, tuple[Frame, ...]] = {}
        self._sizes: dict[int, Shapes] = {}
        self._dtypes: dict[int, tuple[str, ...]] = {}

    def row(self, entry: dict[object, object]) -> Row:
        name = parse_name(text(entry.get("profiling_name")))
        milliseconds = number(entry.get("timeout_ms"))
        # Before torch 2.4 there is no such field, and a batch of sends and receives one entry.
        batch = name.op == "coalesced" and not entry.get("input_sizes")
        p2p = entry.get("is_p2p", batch or name.op in P2P) is True
        collective = number(entry.get("collective_seq_id", entry.get("seq_id")))
        dtypes = entry.get("input_dtypes") or entry.get("output_dtypes")
        return Row(
            name=name,
            group=group_of(entry),
            pg_id=number(entry.get("pg_id")),
            order=number(entry.get("record_id")),
            op=name.op,
            seq=number(entry.get("p2p_seq_id", entry.get("seq_id"))) if p2p else collective,
            collective=collective,
            p2p=p2p,
            state=_STATES.get(text(entry.get("state")), CallState.SCHEDULED),
            retired=entry.get("retired") is True,
            created_at=_created_at(entry),
            limit=milliseconds / 1000 if milliseconds else None,
            input_sizes=_once(self._sizes, entry.get("input_sizes"), _shapes),
            output_sizes=_once(self._sizes, entry.get("output_sizes"), _shapes),
            dtypes=_once(self._dtypes, dtypes, _texts) or (),
            frames=_once(self._stacks, entry.get("frames"), self._stack) or (),
        )

    def _stack(self, frames: list[object]) -> tuple[Frame, ...]:
        """Read a stack, innermost first; JSON dumps have none."""
        stack = tuple([self._frames.get(id(frame)) or self._frame(frame) for frame in frames])
        # By identity: hashing the frames of a deep stack takes longer than reading it.
        if len(_stacks) >= MAX_STACKS:
            _stacks.clear()
        return _stacks.setdefault(tuple(map(id, stack)), stack)

    def _frame(self, frame: object) -> Frame:
        fields = frame if isinstance(frame, dict) else {}
        name, file, line = map(fields.get, ("name", "filename", "line"))
        read = self._frames[id(frame)] = _shared_frame(text(name), text(file), number(line))
        return read


_stacks: dict[tuple[int, ...], tuple[Frame, ...]] = {}


def _once(read: dict[int, T], value: object, reader: Callable[[list[object]], T]) -> T | None:
    """Read a list unless that has been done."""
    if not isinstance(value, list):
        return None
    if id(value) not in read:
        read[id(value)] = reader(value)
    return read[id(value)]


def _shapes(shapes: list[object]) -> Shapes:
    return shared(
        tuple(
            tuple([n for n in shape[:MAX_DIMENSIONS] if type(n) is int and n.bit_length() <= 64])
            for shape in shapes
            if isinstance(shape, list)
        )
    )


def _texts(texts: list[object]) -> tuple[str, ...]:
    return shared(tuple(map(text, texts)))


@functools.lru_cache(maxsize=65536)
def _shared_frame(name: str, file: str, line: int | None) -> Frame:
    native = file.endswith((*NATIVE_SOURCES, ".so"))
    return Frame(function=name, file=file, line=line, native=native)


@functools.lru_cache(maxsize=4096)
def parse_name(profiling_name: str) -> Name:
    """Take "nccl:all_reduce" or "nccl:recv 3<-0" apart; the operation gets its torch name."""
    library, _, rest = profiling_name.rpartition(":")
    p2p = _P2P.match(rest)
    if p2p is None:
        return Name(library=library, op=op_of(rest.partition(" ")[0]))
    op, me, peer = p2p.groups()
    return Name(
        library=library, op=op, me=int(me) if me else None, peer=int(peer) if peer else None
    )


def group_of(entry: dict[object, object]) -> tuple[str, str]:
    """Return name and description; before torch 2.4 the number within the process is the name."""
    group = entry.get("process_group")
    if isinstance(group, list) and len(group) == 2:
        name, description = group
        return text(name), text(description)
    own_number = number(entry.get("pg_id"))
    if own_number is None:
        return "", ""
    return str(own_number), "default_pg" if own_number == 0 else ""


def _created_at(entry: dict[object, object]) -> float | None:
    """Return when an entry was made, in seconds since the epoch."""
    nanoseconds = number(entry.get("time_created_ns"))
    if nanoseconds is not None:
        return nanoseconds / 1e9
    microseconds = number(entry.get("time_created_us"))  # torch 2.2
    return microseconds / 1e6 if microseconds is not None else None


def text(value: object) -> str:
    """Return text that can be printed; whatever else there is counts as none."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= MAX_TEXT and value.isascii() else _printable(value)


@functools.lru_cache(maxsize=16)
def _printable(value: str) -> str:
    """Return what stands for long texts, and for those that may have a lone surrogate."""
    return value[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def number(value: object) -> int | None:
    """Return a number of 64 bits, which JSON and some tools write as text; None for others."""
    if type(value) is int:
        return value if value.bit_length() <= 64 else None
    if isinstance(value, str) and len(value) < 20 and value.removeprefix("-").isdecimal():
        return int(value)
    return None

"""NCCL's lines for each collective (NCCL_DEBUG_SUBSYS=COLL): how many each rank has called.

They are written when a call is enqueued (``enqueue.cc``, the same from NCCL 2.7 to 2.30), half
of all lines of a log where they are switched on, so they are read in bulk: what matters of a
line is cut out at fixed words and looked up; one number per call is kept. Ranks are aligned by
``opCount`` where it rises by one from line to line. On one host it may stand still, and calls of
one group share it: then by the ordinal of a line within its communicator, if the log begins with
that. Excerpts of which neither holds cannot be aligned: they tell of the communicator alone.
"""

from __future__ import annotations

import functools
import re
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from whyhang.analyzer.facts import (
    NOBODY,
    Call,
    CallState,
    CommunicatorSize,
    Fact,
    Group,
    Source,
    Track,
    Who,
    replace,
)
from whyhang.collectors.logs.engine.byte_blocks import Block
from whyhang.collectors.logs.lines.line_reader import LineReader, LogFile, wants_block
from whyhang.collectors.logs.text.line import clean
from whyhang.collectors.ops import op_of

MARK = b": opCount "
KEEP = 8  # last calls of each communicator of each rank
AROUND = 2  # calls kept on both sides of the first difference
MAX_CALLS = 4 << 20  # remembered of one stream; of a longer one the last are
MAX_DETAIL = 20_000  # calls of one stream that are given out where they are asked for
MAX_LOOKUPS = 100_000
MAX_DIGITS = 17  # of opCount, with the blank behind it
PART = 128 << 10  # bytes taken apart at once

_OP = re.compile(rb":\d+:\d+ (?:\[(?P<device>-?\d+)\] )?NCCL INFO (?:\[\d+\] )?(?P<op>\w+)$")
_CALL = re.compile(
    rb" count (?P<count>\d+) datatype (?P<type>\d+) op (?P<reduce>\d+) root (?P<root>-?\d+)"
    rb" comm (?P<comm>\S+)(?: \[nranks=(?P<size>\d+)\])?"
)
_TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
_MORE_TYPES = ("bfloat16", "float8_e4m3", "float8_e5m2")

_Key = tuple[Who, str, bool]
_Entry = tuple[Callable[[int], None], int, int]
"""Takes the checksum behind it; the number of its stream."""


@dataclass
class _Stream:
    """The calls of one process on one communicator, each as a checksum of what it was."""

    who: Who
    comm: str
    size: int | None
    p2p: bool
    order: int  # n-th communicator of this size in its process
    number: int  # of all streams, from 1
    codes: array[int] = field(default_factory=lambda: array("I"))
    skipped: int = 0  # calls that are no longer in ``codes``
    first: int = 0  # opCount of the first line, and of the last
    last: int = 0
    before: int | None = 0  # calls before the first line; None if that cannot be told
    tail: bytes = b""  # how its last line begins
    line: int | None = None

    @property
    def start(self) -> int:
        return (self.before or 0) + self.skipped

    @property
    def total(self) -> int:
        return self.start + len(self.codes)

    def align(self, *, from_its_beginning: bool) -> None:
        """Find out how many calls were made before the first line."""
        if self.last - self.first == self.total - 1:
            self.before = self.first
        elif not from_its_beginning and not self.first == 0 < self.last:
            self.before = None

    def shorten(self) -> None:
        if len(self.codes) > MAX_CALLS:
            self.skipped += MAX_CALLS // 2
            del self.codes[: MAX_CALLS // 2]


class CollReader(LineReader):
    """Counts and compares the collectives of every rank."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._streams: dict[_Key, _Stream] = {}
        self._lookup: dict[tuple[bytes, bytes], _Entry] = {}
        self._what: dict[int, tuple[bytes, bytes]] = {}

    @wants_block(": opCount ")
    def on_block(self, block: Block) -> None:
        """Read all such lines of a block."""
        before = {key: stream.total for key, stream in self._streams.items()}
        at = block.start
        while at < block.stop:  # in small parts, whose memory is used again
            end = block.data.find(b"\n", min(at + PART, block.stop - 1), block.stop) + 1
            self._part(bytes(block.data[at : end or block.stop]))
            at = end or block.stop
        self._locate(block, before)

    def _part(self, data: bytes) -> None:
        pieces = data.split(MARK)
        lookup = self._lookup
        recent = [b""] * (len(self._streams) + 1)
        # The loop runs millions of times: locals, no calls that can be helped.
        head = pieces[0][pieces[0].rfind(b"\n") + 1 :]
        for piece in islice(pieces, 1, None):
            start = piece.find(b" count ", 20)
            call = piece[start : piece.find(b" stream", start)]
            try:
                add, code, number = lookup[head, call]
            except KeyError:
                add, code, number = self._learn(head, call, piece)
                recent += [b""] * (number + 1 - len(recent))
            add(code)
            recent[number] = piece
            head = piece[piece.rfind(b"\n") + 1 :]
        for stream, last in zip(self._streams.values(), recent[1:], strict=True):
            stream.last = _op_count(last) if last else stream.last

    def _learn(self, head: bytes, call: bytes, piece: bytes) -> _Entry:
        """Take a line apart that has not been seen before."""
        if len(self._lookup) >= MAX_LOOKUPS:  # lines with times in front are all different
            self._lookup.clear()
        entry = self._lookup[head, call] = self._entry(head, call, piece)
        return entry

    def _entry(self, head: bytes, call: bytes, piece: bytes) -> _Entry:
        name, fields = _OP.search(head), _CALL.match(call)
        if name is None or fields is None:
            return lambda _: None, 0, 0  # nothing could be read of it
        op = name["op"]
        p2p = op in (b"Send", b"Recv")
        comm = fields["comm"].decode("ascii", "replace")
        who = self._file.take_apart(clean(head))[-1].who
        if who.rank is None and who.local_rank is None and (name["device"] or b"-")[:1] != b"-":
            who = replace(who, local_rank=int(name["device"]))  # right where all ranks see all GPUs
        stream = self._streams.get((who, comm, p2p))
        if stream is None:
            size = int(fields["size"]) if fields["size"] else None
            alike = [(other.who, other.size, other.p2p) for other in self._streams.values()]
            order = alike.count((who, size, p2p))
            number = len(self._streams) + 1
            stream = _Stream(who, comm, size, p2p, order=order, number=number)
            stream.first = _op_count(piece)
            self._streams[who, comm, p2p] = stream
        stream.tail = head
        what = call[: fields.start("comm")]
        code = zlib.crc32(what, zlib.crc32(op))
        if len(self._what) >= MAX_LOOKUPS:
            self._forget()
        self._what[code] = (op, what)
        return stream.codes.append, code, stream.number

    def _forget(self) -> None:
        """Drop descriptions of calls that nobody made lately."""
        recent = {code for stream in self._streams.values() for code in stream.codes[-64:]}
        self._what = {code: what for code, what in self._what.items() if code in recent}

    def _locate(self, block: Block, before: dict[_Key, int]) -> None:
        """Find the line of the last call of each stream that went on in this block."""
        places = []
        for key, stream in self._streams.items():
            if stream.total != before.get(key, 0):
                at = block.data.rfind(stream.tail + MARK, block.start, block.stop)
                if at >= 0:
                    places.append((at, key))
                stream.shorten()
        for at, key in sorted(places):
            self._streams[key].line = block.line_at(at)

    def facts(self) -> Iterator[Fact]:
        """Yield a track for each communicator of each rank."""
        groups: dict[str, list[tuple[_Stream, Group]]] = {}
        widest = max(self._streams.values(), key=lambda stream: stream.size or 0, default=None)
        if widest is not None and widest.size:
            source = Source(file=self._file.document.path, line=widest.line)
            yield CommunicatorSize(size=widest.size, who=NOBODY, source=source)
        for stream in self._streams.values():
            known = (stream.who.host, stream.who.pid, stream.comm) in self._file.comms
            stream.align(from_its_beginning=known)
            group = self._group(stream)
            groups.setdefault(f"{group.name} {stream.p2p}", []).append((stream, group))
        for streams in groups.values():
            aligned = [s for s, _ in streams if not s.p2p and s.before is not None]
            differs = first_difference(aligned)
            for stream, group in streams:
                yield self._track(stream, group, differs)

    def _group(self, stream: _Stream) -> Group:
        known = self._file.comms.get((stream.who.host, stream.who.pid, stream.comm))
        if known is not None:
            return known
        size = f"{stream.size} ranks" if stream.size else "unknown size"
        return Group(name=f"nccl communicator {stream.order} of {size}", inferred=True)

    def _track(self, stream: _Stream, group: Group, differs: int | None) -> Track:
        last = stream.total
        numbers = set(range(max(stream.start, last - KEEP), last))
        if differs is not None:
            numbers |= set(range(max(stream.start, differs - AROUND), differs + AROUND + 1))
        if stream.before is None and not stream.p2p:
            numbers = set()
        calls = [
            call
            for number in sorted(numbers)
            if number < last and (call := self._call(stream, group, number, differs)) is not None
        ]
        return Track(
            who=self._file.resolve(stream.who),
            group=group,
            kind="nccl-coll",
            source=Source(file=self._file.document.path, line=stream.line),
            enqueued=None if stream.p2p or stream.before is None else last,
            calls=tuple(calls),
            lost=last - (stream.before or 0) - len(calls),
            detail=functools.partial(self._all, stream, group, differs) if numbers else None,
        )

    def _all(self, stream: _Stream, group: Group, differs: int | None) -> tuple[Call, ...]:
        """Return all calls that are remembered, for a rank that is looked at closely."""
        numbers = range(max(stream.start, stream.total - MAX_DETAIL), stream.total)
        calls = (self._call(stream, group, number, differs) for number in numbers)
        return tuple(call for call in calls if call is not None)

    def _call(self, stream: _Stream, group: Group, number: int, differs: int | None) -> Call | None:
        what = self._what.get(stream.codes[number - stream.start])
        fields = _CALL.match(what[1] + b"comm 0") if what else None
        if what is None or fields is None:
            return None
        root, peer = int(fields["root"]), None
        state = CallState.UNKNOWN  # no line tells of an end
        if differs is not None and not stream.p2p:  # but a call that differs cannot end
            state = CallState.COMPLETED if number < differs else CallState.SCHEDULED
        if stream.p2p:
            peer = group.ranks[root] if group.ranks and root < len(group.ranks) else None
        return Call(
            op=op_of(what[0].decode("ascii", "replace")),
            seq=number + 1,
            state=state,
            p2p=stream.p2p,
            peer=peer,
            input_sizes=((int(fields["count"]),),),
            dtypes=(_type(int(fields["type"])),),
        )


def _op_count(piece: bytes) -> int:
    """Read the hexadecimal number behind the mark; 0 where there is none."""
    try:
        return int(piece[:MAX_DIGITS].split(b" ", 1)[0], 16)
    except ValueError:
        return 0


def _type(number: int) -> str:
    names = _TYPES + _MORE_TYPES
    return names[number] if number < len(names) else f"datatype {number}"


def first_difference(streams: list[_Stream]) -> int | None:
    """Return the first call, counted from 0, in which ranks of one communicator differ."""
    if len(streams) < 2:
        return None
    first: int | None = None
    one = streams[0]
    for other in streams[1:]:
        low = max(one.start, other.start)
        high = max(low, min(one.total, other.total))
        ours = one.codes[low - one.start : high - one.start]
        theirs = other.codes[low - other.start : high - other.start]
        if ours.tobytes() != theirs.tobytes():  # a thousand times faster than call by call
            pairs = enumerate(zip(ours, theirs, strict=False), start=low)
            at = next(number for number, (a, b) in pairs if a != b)
            first = at if first is None else min(first, at)
    return first

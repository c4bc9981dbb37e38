"""What TORCH_DISTRIBUTED_DEBUG=DETAIL says of each collective before it runs.

Every rank compares a fingerprint of its call with the others'. With TORCH_CPP_LOG_LEVEL=INFO it
also logs each one, which places every rank exactly. When two differ, both sides raise and print
two fingerprints, of which only the speaker's own is sure: where the other one has another
length, an invented one is printed whose "OpType" only encodes that length (``ProcessGroup
Wrapper.cpp``, torch 1.13 to 2.15). They are compared in the order of ranks, and the first that
differs is named: those below it call what the speaker calls. Sequence numbers are those of the log
and begin with 0. That a call was announced does not tell whether it came to its end.

The desync report says what the ranks' last calls were, as one of them read it from the store. It is
printed with TORCH_NCCL_DESYNC_DEBUG=1 or TORCH_DISTRIBUTED_DEBUG=DETAIL, over several lines
(``retrieveDesyncReport`` in c10d's ``TraceUtils.h``, torch 1.13 and newer). Its ranks count within
the group, which most often is the default group, where they are global.
"""

import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from whyhang.analyzer import toml
from whyhang.analyzer.facts import (
    MAX_RANKS,
    Call,
    CallState,
    Fact,
    Group,
    Source,
    Track,
    Trust,
    Who,
    replace,
    unfold,
)
from whyhang.collectors.logs.engine.byte_blocks import Block
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import (
    FoundLine,
    LineReader,
    LogFile,
    wants,
    wants_block,
)
from whyhang.collectors.logs.lines.watchdog import DEFAULT_GROUP, shape
from whyhang.collectors.logs.text.line import clean
from whyhang.collectors.ops import op_of

MARK = b"Running collective: CollectiveFingerPrint("
KEEP = 16  # last calls of each rank
LONGEST = 400  # bytes of a fingerprint that matter

_SEQ = re.compile(r"SequenceNumber=(\d+)")
_OP = re.compile(r"OpType=(\w+)[,)]")  # or it is cut off
_SHAPE = re.compile(r"TensorShape=\[([\d, ]*)\]")
_DTYPE = re.compile(r"TensorDtypes=([A-Za-z]+\d*)")
_PEER = re.compile(r"but Rank (?P<rank>\d+) is running collective: CollectiveFingerPrint\(")
_RANK_TAG = re.compile(rb"\[rank(\d{1,6})\]:")
_GROUP_RANK = re.compile(r"\[Rank (\d+)\] $")
_BOGUS = toml.table(__package__, "debug_detail.toml")


def call_of(text: str, state: CallState) -> Call | None:
    """Read one fingerprint."""
    op = _OP.search(text)
    if op is None:
        return None
    seq, sizes, dtype = _SEQ.search(text), _SHAPE.search(text), _DTYPE.search(text)
    return Call(
        op=op_of(op[1]),
        seq=int(seq[1]) if seq else None,
        state=state,
        input_sizes=shape(sizes[1]) if sizes else None,
        dtypes=(dtype[1],) if dtype else (),
    )


class MismatchReader(LineReader):
    """Reads the fingerprints in messages of a mismatch."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._own: dict[int, tuple[Who, Call, Group, Source]] = {}
        self._peers: dict[int, tuple[Who, Call, Group, Source]] = {}

    @wants(r"Rank (?P<rank>\d+) is running collective: CollectiveFingerPrint\(")
    def on_mismatch(self, line: FoundLine, match: Match) -> None:
        """Note the speaker's own fingerprint, and the other one where it is believable."""
        if "but Rank" in line.text[: match.start()][-8:]:
            return
        rest = line.text[match.end() :]
        peer = _PEER.search(rest)
        own = call_of(rest[: peer.start()] if peer else rest, CallState.SCHEDULED)
        if own is None:
            return
        rank = int(match["rank"])  # within the group
        group, who = DEFAULT_GROUP, line.who
        if who.rank is None:
            who = replace(who, rank=rank, trust=Trust.INFERRED)
        elif who.rank != rank:
            group = Group(name="a group without a name", inferred=True)
        self._file.mismatch = True
        self._own.setdefault(who.rank or 0, (who, own, group, line.source))
        if peer is not None and group is DEFAULT_GROUP:
            named = int(peer["rank"])
            alike = dict.fromkeys(range(min(named, MAX_RANKS)), own)
            call = _peer_call(rest[peer.end() :], own)
            for number, theirs in (alike if call is None else {**alike, named: call}).items():
                other = Who(rank=number, trust=Trust.INFERRED)
                self._peers.setdefault(number, (other, theirs, group, line.source))

    def facts(self) -> Iterator[Fact]:
        """Yield a track for each rank whose call is known, its own word first."""
        for who, call, group, source in {**self._peers, **self._own}.values():
            yield Track(who=who, group=group, kind="fingerprint", source=source, calls=(call,))


def _peer_call(text: str, own: Call) -> Call | None:
    call = call_of(text, CallState.SCHEDULED)
    op = _OP.search(text)
    if call is None or op is None or call.input_sizes is not None:
        return call
    if own.input_sizes is None and call.seq not in (0, None):
        return call  # both without tensors, so of one length: printed as it was
    if own.seq is None:  # torch up to 2.0 counts differently; the length alone says little
        return replace(call, op="another call")
    return replace(call, op=_BOGUS.get(op[1], "a call on other tensors"), seq=own.seq)


@dataclass
class _Stream:
    """The calls of one rank on one group, which their numbers tell from those on others."""

    order: int  # n-th group of this rank, by its first call
    last: int = -1
    total: int = 0
    group_ranks: set[int] = field(default_factory=set)
    line: int = 0  # of the last call
    calls: deque[bytes] = field(default_factory=lambda: deque(maxlen=KEEP))
    """The texts of the last calls."""


class FingerprintReader(LineReader):
    """Reads the lines that announce each collective, in bulk."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._streams: dict[Who, list[_Stream]] = {}
        self._speakers: dict[bytes, Who] = {}

    @wants_block(r"Running collective: CollectiveFingerPrint\(")
    def on_block(self, block: Block) -> None:
        """Read all such lines of a block."""
        data = bytes(block.data[block.start : block.stop])
        pieces = data.split(MARK)
        line = block.line_at(block.start)
        for before, piece in itertools.pairwise(pieces):
            line += before.count(b"\n")
            self._add(before[before.rfind(b"\n") + 1 :], piece[:LONGEST].partition(b"\n")[0], line)

    def _add(self, head: bytes, text: bytes, line: int) -> None:
        seq = _SEQ.search(text[:40].decode("ascii", "replace"))
        if seq is None:
            return
        number = int(seq[1])
        who = self._speaker(head)
        group_rank = _GROUP_RANK.search(clean(head[-24:]))
        streams = self._streams.setdefault(who, [])
        stream = next((s for s in streams if s.last + 1 == number), None)
        if stream is None and (number == 0 or not streams):
            stream = _Stream(len(streams))
            streams.append(stream)
        elif stream is None:  # lines are missing in between: the one that is nearest below
            below = [s for s in streams if s.last < number] or streams
            stream = max(below, key=lambda s: s.last)
        stream.last = number
        stream.total += 1
        stream.line = line
        stream.calls.append(text)
        if group_rank is not None:
            stream.group_ranks.add(int(group_rank[1]))

    def _speaker(self, head: bytes) -> Who:
        tag = _RANK_TAG.search(head)
        key = tag[0] if tag else head
        who = self._speakers.get(key)
        if who is None:
            text = clean(head)
            who = self._file.take_apart(text)[-1].who
            if len(self._speakers) < KEEP**4:
                self._speakers[key] = who
        return who

    def facts(self) -> Iterator[Fact]:
        """Yield a track per rank and group, where the groups of the ranks can be told to agree."""
        users: dict[tuple[int, int], set[Who]] = {}
        for who, streams in self._streams.items():
            for stream in streams:
                for rank in stream.group_ranks:
                    users.setdefault((stream.order, rank), set()).add(who)
        mixed = {order for (order, _), speakers in users.items() if len(speakers) > 1}
        for who, streams in self._streams.items():
            for stream in streams:
                if stream.order not in mixed:
                    yield self._track(who, stream)

    def _track(self, who: Who, stream: _Stream) -> Track:
        group = DEFAULT_GROUP
        if stream.order:
            group = Group(name=f"group {stream.order} in order of use", inferred=True)
        calls = []
        for text in stream.calls:
            call = call_of(text.decode("utf-8", "replace"), CallState.UNKNOWN)
            if call is not None and self._file.mismatch:  # then the last call is where it failed
                last = call.seq == stream.last
                call = replace(call, state=CallState.SCHEDULED if last else CallState.COMPLETED)
            if call is not None:
                calls.append(call)
        return Track(
            who=self._file.resolve(who),
            group=group,
            kind="fingerprint",
            source=self._file.document.source(stream.line),
            enqueued=stream.last,
            calls=tuple(calls),
            lost=stream.total - len(stream.calls),
        )


MAX_LINES = 64
_RANKS_AND_OP = re.compile(r"\[(?P<ranks>[\d, ]+)\] (?:started|finished) (?P<op>\w+)")


@dataclass
class _Last:
    """The last that is known of one rank."""

    source: Source
    op: str = ""
    entered: int = 0
    finished: int = 0


class DesyncReader(LineReader):
    """Puts the lines of desync reports together into a ``Track`` per rank."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._last: dict[int, _Last] = {}

    @wants(
        r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks that caused this timeout",
        r"\[(?P<ranks>[\d, ]+)\] joined but didn't finish collective #(?P<entered>\d+)",
        r"\[(?P<ranks>[\d, ]+)\] finished collective #(?P<finished>\d+), but didn't join coll",
        r"- \[(?P<ranks>\d+)\] Timeout at collective: (?P<op>\w+), #(?P<entered>\d+)",
    )
    def on_ranks(self, line: FoundLine, match: Match) -> None:
        """Note ranks that joined no collective, are inside one, or are between two."""
        self._note(line, match.groupdict())

    def _note(self, line: FoundLine, told: Mapping[str, str]) -> None:
        for rank in unfold(told["ranks"]):
            last = self._last.setdefault(rank, _Last(line.source))
            last.entered = max(last.entered, int(told.get("entered", 0)))
            if "finished" in told:
                last.finished = max(last.finished, int(told["finished"]))
                last.entered = max(last.entered, last.finished)
            if "op" in told:
                last.op = op_of(told["op"])

    @wants(r"#(?P<seq>\d+) (?P<state>started|finished) ranks:")
    def on_states(self, line: FoundLine, match: Match) -> None:
        """Read the snapshot: under each number, which ranks began or ended what."""
        for _, after in line.following(MAX_LINES, bare=True):
            row = _RANKS_AND_OP.search(after.text)
            if row is None:
                return
            state = "finished" if match["state"] == "finished" else "entered"
            self._note(line, row.groupdict() | {state: match["seq"]})

    def facts(self) -> Iterator[Fact]:
        """Yield a track for each rank that the reports speak of."""
        for rank, last in sorted(self._last.items()):
            inside = last.entered > last.finished
            state = CallState.STARTED if inside else CallState.COMPLETED
            calls = (Call(op=last.op, seq=last.entered, state=state),)
            yield Track(
                who=Who(rank=rank, trust=Trust.INFERRED),
                group=DEFAULT_GROUP,
                kind="desync",
                source=last.source,
                enqueued=last.entered,
                completed=last.finished,
                calls=calls if last.op else (),
            )

"""The fast way into a dump as torch writes it: only the entries that matter are built.

A recorder holds thousands of entries per rank, and all but the last few are of calls that
every rank has completed. torch's pickler (``torch/csrc/jit/serialization/pickler.cpp``,
protocol 2) writes one dict per entry, keeps each text and each frame once and then refers to it
by number, so every entry after the first begins with the same few bytes and its ``state`` is
two bytes behind a two-byte key. Those can be found at C speed, and the entries around them cut
out and given to the C unpickler, with the memo that the cut-out parts need.

Before any byte goes to the C unpickler it is read token by token: only opcodes that build plain
data pass, memo numbers are bounded, tuples are never remembered (so that nothing grows
exponentially), and ``find_class`` refuses on top of that. Whatever does not look as torch
would have written it gets ``None``, and ``fr_pickle.load`` has the word.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterator
from itertools import islice
from typing import NoReturn

from whyhang.analyzer.model import Record

WINDOW = 48
"""How many of the last entries are built in any case."""

HEAD = 32
"""How many of the first entries are built at first, for the texts that they define."""

MAX_SCATTERED = 256
"""How many entries before the window are built one by one; with more, all are."""

_TOKENS = re.compile(
    rb"(?:h.|[\]\}\(eusaN\x88\x89]+|K.|j..[\x00-\x0f]\x00|q.|M..|J....|\x8a\x08.{8}"
    rb"|r..[\x00-\x0f]\x00|G.{8}|\x86(?![qr])){1,400}",
    re.DOTALL,
)
_BATCH_END = re.compile(rb":[A-Za-z_]*coalesced(?:q(.)|r(.{4}))", re.DOTALL)
# The last entry, the list of entries, the whole; each may be given a number.
_CLOSING = re.compile(rb"u(e(?:q.|r.{4})?(?:u(?:q.|r.{4})?)?\.)\Z", re.DOTALL)
_ENTRIES = b"X\x07\x00\x00\x00entries"
_OPEN_LIST = b"\x80\x02]("
_TEXT = ord("X")
_STOP = ord(".")


class Dump(Record):
    """What was built of one dump.

    ``top`` holds everything but the entries, ``entries`` those that were built, in the order of
    the file; ``first`` is the file's first entry, ``total`` how many it has. ``whole``: none was
    left out. ``cut``: the file ends in the middle, and what was lost is not in ``total``.
    """

    top: dict[object, object]
    entries: list[object]
    total: int
    whole: bool = True
    cut: bool = False
    first: object = None


class _UnexpectedError(Exception):
    """The bytes are not what torch would have written."""


class _PlainUnpickler(pickle.Unpickler):
    """The C unpickler without the one thing that makes unpickling dangerous."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        """Refuse; the token check before makes sure that this is never asked."""
        raise pickle.UnpicklingError(f"{module}.{name}")


def build(data: bytes, *, everything: bool = False) -> Dump | None:
    """Build the entries that matter, or all of them; None if the layout is not torch's.

    All of them cost about 4 µs an entry and 2 kB of memory.
    """
    try:
        layout = _Layout(data)
        parts = layout.all() if everything else layout.wanted()
        dump = layout.dump(parts)
        if not dump.whole and _unaccounted(dump):
            dump = layout.dump(layout.all())
    except (_UnexpectedError, pickle.UnpicklingError, EOFError, ValueError, TypeError, IndexError):
        return None
    return dump


class _Layout:
    """Where things are in one dump: header, entries, and the numbers of their keys."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._machine: _PlainUnpickler | None = None  # the last one; it holds the memo
        self.top: dict[object, object] = {}
        self.first = self._header()
        self.marker = self._marker()
        closing = _CLOSING.search(data, max(0, len(data) - 16))
        self.cut = closing is None
        self.end = self._last() if closing is None else closing.start(1)
        self.first_entry: object = None
        self._learnt = self.first
        self._learn(HEAD)
        self.keys = self._texts()

    def all(self) -> list[tuple[int, int]]:
        """Choose every entry."""
        return [(self.first, self.end)]

    def wanted(self) -> list[tuple[int, int]]:
        """Choose the last entries, unfinished ones before them, the last one of each group."""
        try:
            window = self._window()
            places = (*self._unfinished(window), *self._last_of_groups(window))
        except KeyError:  # an older format without such a key
            return self.all()
        chosen = {self._start_of(at) for at in places}
        if window <= self.first or len(chosen) > MAX_SCATTERED:
            return self.all()
        parts = [(at, self._next(at)) for at in sorted(chosen)]
        return [*parts, (window, self.end)]

    def dump(self, parts: list[tuple[int, int]]) -> Dump:
        """Build the entries in these byte ranges, which are in order and do not overlap."""
        stream = _OPEN_LIST + b"".join(self.data[a:b] for a, b in parts) + b"e."
        entries = self._load_resolving(stream)
        if not isinstance(entries, list):
            raise _UnexpectedError
        total = 1 + self.data.count(self.marker, self.first + 1, self.end)
        return Dump(
            top=self.top,
            entries=entries,
            total=total,
            whole=len(entries) == total,
            cut=self.cut,
            first=self.first_entry,
        )

    def _header(self) -> int:
        """Build what stands before the entries; give the place of the first entry."""
        data = self.data
        if data.startswith(_OPEN_LIST):  # torch 2.2: a bare list
            return len(_OPEN_LIST)
        at = data.find(_ENTRIES)
        if not data.startswith(b"\x80\x02}(") or at < 0:
            raise _UnexpectedError
        _, after = _memo_number(data, at + len(_ENTRIES))
        if data[after : after + 2] != b"](":
            raise _UnexpectedError  # no entries at all
        top = self._load(data[:at] + b"u.")
        if not isinstance(top, dict):
            raise _UnexpectedError
        self.top = top
        return after + 2

    def _marker(self) -> bytes:
        """Tell how entries begin: a dict whose first key was given a number in the first one."""
        data, first = self.data, self.first
        if data[first : first + 3] != b"}(X":
            raise _UnexpectedError
        size = int.from_bytes(data[first + 3 : first + 7], "little")
        number, _ = _memo_number(data, first + 7 + size)
        return b"}(" + _reference(number)

    def _last(self) -> int:
        """Find the start of the last entry of a file that was cut off in it."""
        last = self.data.rfind(self.marker, self.first)
        if last < 0 or _token_end(self.data, last) is not None:
            raise _UnexpectedError  # complete after all, only not as torch ends it
        return last

    def _window(self) -> int:
        """Find where the last entries begin, not within a batch of sends and receives."""
        start = self.end
        for _ in range(WINDOW):
            start = self._before(start)
        in_batch = _reference(self.keys["is_p2p"]) + b"\x88u"
        for _ in range(MAX_SCATTERED):
            if not self.data.endswith(in_batch, self.first, max(start, self.first)):
                break
            start = self._before(start)
        return start

    def _unfinished(self, window: int) -> Iterator[int]:
        """Find places within unfinished entries before the window.

        gloo never leaves ``scheduled`` and tells by ``retired``. Elsewhere, members of a
        coalesced batch stay ``scheduled`` for ever; the entry that ends the batch tells.
        """
        if any(text.startswith("gloo:") for text in self.keys):
            yield from self._places(self._key("retired") + rb"\x89", window)
            return
        unfinished = self._key("state")
        if "completed" in self.keys:
            unfinished += b"(?!" + self._key("completed") + b")"
        flag = self._key("is_p2p")
        yield from self._places(unfinished + b".{0,64}?" + flag + rb"\x89u", window)
        ends = {_memo_of(found) for found in _BATCH_END.finditer(self.data, self.first)}
        if not ends:
            yield from self._places(unfinished + b".{0,64}?" + flag + rb"\x88u", window)
        for end in ends:
            name = self._key("profiling_name") + re.escape(_reference(end))
            for _ in self._places(name + b".{0,160}?" + unfinished, window):
                raise KeyError("a batch far back is unfinished; its members are needed as well")

    def _places(self, pattern: bytes, window: int) -> Iterator[int]:
        found = re.compile(pattern, re.DOTALL).finditer(self.data, self.first, max(window, 0))
        return (match.start() for match in islice(found, MAX_SCATTERED + 1))

    def _last_of_groups(self, window: int) -> Iterator[int]:
        """Find the last entry of each group that has none within the window."""
        key = _reference(self.keys["process_group"])
        yield from self._places(re.escape(key) + b"X", window)  # where its name stands in full
        named = re.compile(re.escape(key) + rb"(h.|j....)", re.DOTALL)
        for name in set(named.findall(self.data, self.first, max(window, self.first))):
            wanted = key + name
            if self.data.rfind(wanted, window, self.end) < 0:
                yield self.data.rfind(wanted, self.first, window)

    def _key(self, key: str) -> bytes:
        """Give the pattern of a reference to a text; KeyError if this dump has no such text."""
        return re.escape(_reference(self.keys[key]))

    def _start_of(self, place: int) -> int:
        return max(self.first, self.data.rfind(self.marker, self.first, place))

    def _before(self, start: int) -> int:
        return self._start_of(start) if start > self.first else self.first

    def _next(self, start: int) -> int:
        at = self.data.find(self.marker, start + len(self.marker), self.end)
        return self.end if at < 0 else at

    def _learn(self, count: int) -> bool:
        """Build the next entries from the start, for what they define; False at the end."""
        start = upto = self._learnt
        while count > 0 and upto < self.end:
            upto = self._next(upto)
            count -= 1
        if upto == start:
            return False
        entries = self._load(_OPEN_LIST + self.data[start:upto] + b"e.")
        if self.first_entry is None and isinstance(entries, list) and entries:
            self.first_entry = entries[0]
        self._learnt = upto
        return True

    def _load_resolving(self, stream: bytes) -> object:
        """Build; where a part refers to what an entry left out defines, read on from the start."""
        count = HEAD
        while (value := self._try(stream)) is None:
            count *= 4
            if not self._learn(count):
                return self._load(stream)
        return value

    def _try(self, stream: bytes) -> object:
        try:
            return self._load(stream)
        except pickle.UnpicklingError:  # "Memo value not found"
            return None

    def _load(self, stream: bytes) -> object:
        if _token_end(stream, 2) != len(stream):
            raise _UnexpectedError
        machine = _PlainUnpickler(io.BytesIO(stream))
        if self._machine is not None:
            # Only from one machine to the next: CPython loses what a dict is assigned here.
            machine.memo = self._machine.memo
        value: object = machine.load()
        self._machine = machine
        return value

    def _texts(self) -> dict[str, int]:
        """Give the number of each text that was defined so far."""
        if self._machine is None:
            return {}
        memo: dict[int, object] = dict(self._machine.memo.copy())
        return {text: number for number, text in memo.items() if isinstance(text, str)}


def _memo_number(data: bytes, at: int) -> tuple[int, int]:
    """Read BINPUT or LONG_BINPUT; give the number and the place after it."""
    if data[at] == ord("q"):
        return data[at + 1], at + 2
    if data[at] == ord("r"):
        return int.from_bytes(data[at + 1 : at + 5], "little"), at + 5
    raise _UnexpectedError


def _memo_of(found: re.Match[bytes]) -> int:
    return int.from_bytes(found[1] if found[1] is not None else found[2], "little")


def _reference(number: int) -> bytes:
    """Write BINGET or LONG_BINGET as torch does."""
    return bytes((ord("h"), number)) if number < 256 else b"j" + number.to_bytes(4, "little")


def _token_end(data: bytes, at: int = 0) -> int | None:
    """Read tokens up to STOP; give the place after it, or None where a token is not allowed."""
    end = len(data)
    while at < end:
        run = _TOKENS.match(data, at)
        if run is not None:
            at = run.end()
        elif data[at] == _TEXT:
            at += 5 + int.from_bytes(data[at + 1 : at + 5], "little")
        else:
            return at + 1 if data[at] == _STOP else None
    return None


def _unaccounted(dump: Dump) -> bool:
    """Tell whether pg_status knows of unfinished work on a group that no built entry shows."""
    status = dump.top.get("pg_status")
    if not isinstance(status, dict):
        return False
    shown = {
        str(entry.get("pg_id"))
        for entry in dump.entries
        if isinstance(entry, dict) and entry.get("state") != "completed"
    }
    return any(
        isinstance(counts, dict)
        and _number(counts.get("last_enqueued_collective"))
        > _number(counts.get("last_completed_collective"))
        and str(group) not in shown
        for group, counts in status.items()
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1

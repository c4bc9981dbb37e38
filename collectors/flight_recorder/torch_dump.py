"""The fast way into a dump as torch writes it: only the entries that matter are built.

A recorder holds thousands of entries per rank, and all but the last few are of calls that
every rank has completed. torch's pickler (``torch/csrc/jit/serialization/pickler.cpp``,
protocol 2) writes one dict per entry, keeps each text and each frame once and then refers to it
by number, so every entry after the first begins with the same few bytes and its ``state`` is
two bytes behind a two-byte key. Those can be found at C speed, and the entries around them cut
out and built by ``builder.py``. Whatever does not look as torch would have written it gets
``None``, and ``unpickle.load`` has the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from whyhang.analyzer.facts import Record
from whyhang.collectors.flight_recorder.builder import (
    Builder,
    UnexpectedError,
    number_at,
    reference,
    token_end,
)

WINDOWS = (16, 64, 256)
"""How many of the last entries are built; the next where those do not account for all work."""

MAX_SCATTERED = 256
"""How many entries before the window are built one by one; with more, all are."""

_BATCH_END = re.compile(rb":[A-Za-z_]*coalesced(?:q(.)|r(.{4}))", re.DOTALL)
# The last entry, the list of entries, the whole; each may be given a number.
_CLOSING = re.compile(rb"u(e(?:q.|r.{4})?(?:u(?:q(.)|r(.{4}))?)?\.)\Z", re.DOTALL)
_ENTRIES = b"X\x07\x00\x00\x00entries"
_OPEN_LIST = b"\x80\x02]("


class Dump(Record):
    """What was built of one dump.

    ``top`` holds everything but the entries, ``entries`` those that were built, in the order of
    the file; ``first`` is the file's first entry. ``whole``: none was left out. ``cut``: the
    file ends in the middle.
    """

    top: dict[object, object]
    entries: list[object]
    whole: bool = True
    cut: bool = False
    first: object = None


def build(data: bytes, *, everything: bool = False) -> Dump | None:
    """Build the entries that matter, or all of them; None if the layout is not torch's.

    All of them cost about 4 µs an entry and 2 kB of memory.
    """
    try:
        layout = _Layout(data)
        return layout.all() if everything else layout.latest()
    except (UnexpectedError, IndexError):  # or the file ends where more should come
        return None


class _Layout:
    """Where things are in one dump: header, entries, and the numbers of their keys."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        closing = _CLOSING.search(data, max(0, len(data) - 16))
        self.cut = closing is None
        self.builder = Builder(data)
        self.top: dict[object, object] = {}
        self.first = self._header()
        self.marker = self._marker()
        self.end = self._last() if closing is None else closing.start(1)
        self.second = self._next(self.first)
        one = self.builder.load(_OPEN_LIST + data[self.first : self.second] + b"e.")
        self.first_entry = one[0] if isinstance(one, list) and one else None
        self.keys: dict[str, bytes] = {}

    def all(self) -> Dump:
        """Build every entry."""
        entries = self.builder.load(_OPEN_LIST + self.data[self.first : self.end] + b"e.")
        return self._dump(entries, whole=True)

    def latest(self) -> Dump:
        """Build the last entries, unfinished ones before them, the last one of each group."""
        entry = self.first_entry
        if not isinstance(entry, dict) or next(reversed(entry), None) != "is_p2p":
            return self.all()  # what is looked for here would not be found
        try:
            # Over gloo, pg_status does not count what entries count.
            if _over_gloo(self.first_entry) or not isinstance(self.top.get("pg_status"), dict):
                return self._searched(self._window(WINDOWS[1]))
            self._reference("completed")  # without it only active calls were asked for
            for size in WINDOWS:
                window = self._window(size)
                if window <= self.first:
                    return self.all()
                dump = self._parts(window, self._last_of_groups(window))
                if _accounted(dump):
                    return dump
            return self._searched(self._window(WINDOWS[0]))
        except KeyError:  # an older format without such a key
            return self.all()

    def _searched(self, window: int) -> Dump:
        """Look for unfinished entries in the whole file, at twice the cost."""
        places = (*islice(self._unfinished(window), MAX_SCATTERED), *self._last_of_groups(window))
        if window <= self.first or len(places) >= MAX_SCATTERED:
            return self.all()
        return self._parts(window, places)

    def _parts(self, window: int, places: Iterable[int]) -> Dump:
        """Build the entries at some places and all from the window on."""
        starts = sorted({self._start_of(at) for at in places})
        parts = [*((at, self._next(at)) for at in starts), (window, self.end)]
        items = b"".join([self.data[a:b] for a, b in parts])
        return self._dump(self.builder.load_list(items, self.second), whole=False)

    def _dump(self, entries: object, *, whole: bool) -> Dump:
        if not isinstance(entries, list):
            raise UnexpectedError
        return Dump(
            top=self.top, entries=entries, whole=whole, cut=self.cut, first=self.first_entry
        )

    def _header(self) -> int:
        """Build what stands before the entries; give the place of the first entry."""
        data = self.data
        if data.startswith(_OPEN_LIST):  # torch 2.2: a bare list
            return len(_OPEN_LIST)
        at = data.find(_ENTRIES)
        if not data.startswith(b"\x80\x02}(") or at < 0:
            raise UnexpectedError
        _, after = number_at(data, at + len(_ENTRIES))
        if data[after : after + 2] != b"](":
            raise UnexpectedError  # no entries at all
        top = self.builder.load(data[:at] + b"u.")
        if not isinstance(top, dict):
            raise UnexpectedError
        self.top = top
        return after + 2

    def _marker(self) -> bytes:
        """Tell how entries begin: a dict whose first key was given a number in the first one."""
        data, first = self.data, self.first
        if data[first : first + 3] != b"}(X":
            raise UnexpectedError
        size = int.from_bytes(data[first + 3 : first + 7], "little")
        number, _ = number_at(data, first + 7 + size)
        return b"}(" + reference(number)

    def _last(self) -> int:
        """Find the start of the last entry of a file that was cut off in it."""
        last = self.data.rfind(self.marker, self.first)
        if last < 0 or token_end(self.data, last) is not None:
            raise UnexpectedError  # complete after all, only not as torch ends it
        return last

    def _window(self, size: int) -> int:
        """Find where the last entries begin, not within a batch of sends and receives."""
        start = self.end
        for _ in range(size):
            start = self._before(start)
        in_batch = self._reference("is_p2p") + b"\x88u"
        for _ in range(MAX_SCATTERED):
            if start <= self.first or not self.data.endswith(in_batch, self.first, start):
                break
            start = self._before(start)
        return start

    def _unfinished(self, window: int) -> Iterator[int]:
        """Find places within unfinished entries before the window.

        gloo never leaves ``scheduled`` and tells by ``retired``. Elsewhere, members of a
        coalesced batch stay ``scheduled`` for ever; the entry that ends the batch tells.
        """
        if _over_gloo(self.first_entry):
            yield from self._places(self._key("retired") + rb"\x89", window)
            return
        unfinished = self._key("state") + b"(?!" + self._key("completed") + b")"
        flag = self._key("is_p2p")
        yield from self._places(unfinished + b".{0,64}?" + flag + rb"\x89u", window)
        ends = {_memo_of(found, 1) for found in _BATCH_END.finditer(self.data, self.first)}
        if not ends:
            yield from self._places(unfinished + b".{0,64}?" + flag + rb"\x88u", window)
        before_state = b"(?:(?!" + self._key("state") + b").){0,160}"
        for end in ends:
            name = self._key("profiling_name") + re.escape(reference(end))
            for _ in self._places(name + before_state + unfinished, window):
                raise KeyError("a batch far back is unfinished; its members are needed as well")

    def _places(self, pattern: bytes, window: int) -> Iterator[int]:
        found = re.compile(pattern, re.DOTALL).finditer(self.data, self.first, window)
        return (match.start() for match in islice(found, MAX_SCATTERED + 1))

    def _last_of_groups(self, window: int) -> Iterator[int]:
        """Find the last entry of each group that has none within the window."""
        key = self._reference("process_group")
        config = self.top.get("pg_config")
        names = [name for name in config if name] if isinstance(config, dict) else []
        if names:
            wanted = {key + self._reference(name) for name in names if isinstance(name, str)}
        else:  # gloo names no groups but in the entries
            yield from self._places(re.escape(key) + b"X", window)
            found = re.compile(re.escape(key) + rb"(?:h.|j....)", re.DOTALL)
            wanted = set(found.findall(self.data, self.first, window))
        for name in wanted:
            if self.data.rfind(name, window, self.end) < 0:
                at = self.data.rfind(name, self.first, window)
                if at >= 0:
                    yield at

    def _key(self, text: str) -> bytes:
        """Give the pattern of a reference to a text; KeyError if this dump has no such text."""
        return re.escape(self._reference(text))

    def _reference(self, text: str) -> bytes:
        if text not in self.keys:
            written = b"X" + len(text).to_bytes(4, "little") + text.encode()
            at = self.data.find(written)
            while at >= 0 and self.data[at + len(written)] not in b"qr":
                at = self.data.find(written, at + 1)
            if at < 0:
                raise KeyError(text)
            number, _ = number_at(self.data, at + len(written))
            self.keys[text] = reference(number)
        return self.keys[text]

    def _start_of(self, place: int) -> int:
        return max(self.first, self.data.rfind(self.marker, self.first, place))

    def _before(self, start: int) -> int:
        return self._start_of(start) if start > self.first else self.first

    def _next(self, start: int) -> int:
        at = self.data.find(self.marker, start + len(self.marker), self.end)
        return self.end if at < 0 else at


def _memo_of(found: re.Match[bytes], group: int) -> int:
    """Read the number in one of two neighbouring groups, of which one took part."""
    short, long = found[group], found[group + 1]
    return int.from_bytes(short if short is not None else long or b"", "little")


def _over_gloo(entry: object) -> bool:
    name = entry.get("profiling_name") if isinstance(entry, dict) else None
    return not isinstance(name, str) or name.startswith("gloo:")


def _accounted(dump: Dump) -> bool:
    """Tell whether the built entries show all unfinished work that pg_status counts."""
    status = dump.top.get("pg_status")
    shown: dict[str, set[object]] = {}
    for entry in dump.entries:
        if not isinstance(entry, dict):
            continue
        p2p = entry.get("is_p2p") is True
        launch = (p2p, entry.get("p2p_seq_id" if p2p else "collective_seq_id"))
        own = shown.setdefault(str(entry.get("pg_id")), set())
        if entry.get("state") == "completed":
            own.discard(launch)  # the end of a batch, whose members never leave "scheduled"
        else:
            own.add(launch)
    return isinstance(status, dict) and all(
        _number(counts.get("last_enqueued_collective"))
        - _number(counts.get("last_completed_collective"))
        <= len(shown.get(str(group), ()))
        for group, counts in status.items()
        if isinstance(counts, dict)
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1

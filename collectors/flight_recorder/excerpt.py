"""The entries of a dump that matter, out of a pickle, mostly without building the others.

A recorder holds thousands of entries per rank, and all but the last few are of calls that every
rank has completed. The pickler of torch (``torch/csrc/jit/serialization/pickler.cpp``, protocol
2) and those of Python write one dict per entry, keep each text and each frame once and then
refer to it by number, so every entry after the first begins with the same few bytes, and its
``state`` is two bytes behind a two-byte key. Those can be searched for, and only the entries
around them are built, with those in which something that they refer to was memoised.

torch and Python's protocols 2 and 3 write the numbers of the memo. In protocols 4 and 5 they are
counted, which takes looking at every operation up to the number that is asked for.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

from whyhang.analyzer import lazy_re
from whyhang.analyzer.model import Record
from whyhang.collectors.flight_recorder.entries import number
from whyhang.collectors.flight_recorder.pickles import (
    MEMO,
    MEMOIZE,
    STOP,
    BadPickleError,
    Builder,
    UnsafePickleError,
    checked,
    get,
    load,
    operations,
    put,
    unframed,
)

WINDOWS = (16, 64, 256)
"""How many of the last entries are built; the next where those do not account for all work."""

MAX_SCATTERED = 256
"""How many entries before the window are built one by one; with more, all are."""

MAX_LOOKALIKES = 16
"""How many places that look as if a number was given there are tried."""

MAX_ENTRIES = 1 << 18
"""No recorder is made as large."""

_DICT = lazy_re.compile(rb"\}%b\(" % MEMO, re.DOTALL)
_LIST = lazy_re.compile(rb"\]%b\(" % MEMO, re.DOTALL)
_ENTRIES = lazy_re.compile(
    rb"(?:X\x07\x00\x00\x00|\x8c\x07)entries%b\]%b\(" % (MEMO, MEMO), re.DOTALL
)
_FIRST_KEY = lazy_re.compile(rb"\}%b\((?:X(.)\x00\x00\x00|\x8c(.))" % MEMO, re.DOTALL)
_OPENING = lazy_re.compile(rb"\}%b\Z" % MEMO, re.DOTALL)
# The last entry, the list of entries, the whole.
_CLOSING = lazy_re.compile(rb"u(e%b(?:u%b)?\.)\Z" % (MEMO, MEMO), re.DOTALL)
_BATCH_END = lazy_re.compile(rb":[A-Za-z_]*coalesced(?=[qr\x94])")
_REFERENCES = lazy_re.compile(rb"h.|j..[\x00-\x0f]\x00", re.DOTALL)


class Dump(Record):
    """What was built of one dump.

    ``top`` holds everything but the entries, ``entries`` those that were built, in the order of
    the file; ``first`` is the file's first entry. ``whole``: none was left out. ``cut``: the
    file ends in the middle.
    """

    top: dict[object, object]
    entries: list[object]
    first: object = None
    whole: bool = True
    cut: bool = False


class _UnusualError(Exception):
    """The layout is none in which entries can be searched for, or too many of them matter."""


def read(data: bytes, *, everything: bool = False) -> Dump:
    """Build the entries of a pickle that matter, or all.

    All of them cost about 4 µs an entry and 2 kB of memory. Raises ``UnsafePickleError`` or
    ``BadPickleError``.
    """
    data, cut = unframed(data), False
    try:
        layout = _Layout(data)
        data, cut = layout.data, layout.cut
        if not everything:
            return layout.latest()
    except (_UnusualError, BadPickleError, UnsafePickleError, IndexError):
        pass  # what is wrong with it shows when all of it is built
    return shaped(load(data), cut=cut)


def shaped(value: object, *, cut: bool = False) -> Dump:
    """Find the entries in plain data: under ``entries``, or as the whole (torch 2.2).

    Raises ``BadPickleError`` where there are none.
    """
    top: dict[object, object] = {}
    entries = value
    if isinstance(value, dict):
        top = {key: part for key, part in value.items() if key != "entries"}
        entries = value.get("entries", [])
    if not isinstance(entries, list):
        raise BadPickleError("it has no list of entries")
    if len(entries) > MAX_ENTRIES:
        raise BadPickleError(f"it has more than {MAX_ENTRIES:,} entries")
    return Dump(top=top, entries=entries, first=entries[0] if entries else None, cut=cut)


class _Memo:
    """Which numbers a pickle has memoised its objects under, and where."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.counted = data[1] >= 4
        # Where runs of operations end, and how many objects were memoised up to there.
        self.places, self.counts = [2], [0]
        self.operations = operations(data, 2)

    def number_at(self, place: int) -> int:
        """Return the number that is given at a place."""
        code = self.data[place]
        if code == ord("q"):
            return self.data[place + 1]
        if code == ord("r"):
            return int.from_bytes(self.data[place + 1 : place + 5], "little")
        while self.places[-1] <= place and self._count_on():
            pass
        count = self.count(place)
        if count is None or code != MEMOIZE[0]:
            raise _UnusualError
        return count

    def place_of(self, number: int, after: int) -> int:
        """Return where a number is given, -1 if nowhere; written ones ``after`` a place."""
        if not self.counted:
            return self.data.find(put(number), after)
        while self.counts[-1] <= number:
            if not self._count_on():
                return -1
        run = bisect_right(self.counts, number) - 1
        place = self.places[run] - 1
        for _ in range(self.counts[run], number + 1):
            place = self.data.find(MEMOIZE, place + 1)
        return place

    def count(self, place: int) -> int | None:
        """Return how many objects were memoised before a place; None if not counted so far."""
        if place > self.places[-1]:
            return None
        run = bisect_right(self.places, place) - 1
        return self.counts[run] + self.data.count(MEMOIZE, self.places[run], place)

    def _count_on(self) -> bool:
        try:
            start, end, ordinary = next(self.operations)
        except (StopIteration, BadPickleError):
            return False
        self.places.append(end)
        self.counts.append(self.counts[-1] + ordinary * self.data.count(MEMOIZE, start, end))
        return True


class _Layout:
    """Where things are in one dump: header, entries, and the numbers of their keys.

    Raises ``_UnusualError`` where they cannot be found.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.by_torch = data.startswith((b"\x80\x02}(", b"\x80\x02]("))
        self.memo = _Memo(data)
        self.builder = Builder()
        self.top: dict[object, object] = {}
        self.first = self._header()
        key = _FIRST_KEY.match(data, self.first)
        if key is None:
            raise _UnusualError
        first_key = self.memo.number_at(key.end() + (key[1] or key[2])[0])
        self.marker = b"(" + get(first_key)  # how entries go on behind the operation for a dict
        closing = _CLOSING.search(data, max(0, len(data) - 16))
        self.cut = closing is None
        self.end = closing.start(1) if closing is not None else self._cut_off()
        self.second = self._next(self.first)
        (entries,) = self._built([(self.first, self.second)])
        self.first_entry = entries[0] if entries else None
        memo = self.builder.memo()
        self.known = set(map(get, memo))  # references to what is in the header or the first entry
        self.numbers = {text: number for number, text in memo.items() if isinstance(text, str)}

    def latest(self) -> Dump:
        """Build the last entries, unfinished ones before them, the last one of each group."""
        entry = self.first_entry
        if not isinstance(entry, dict) or next(reversed(entry), None) != "is_p2p":
            raise _UnusualError  # what is looked for here would not be found
        # Over gloo, pg_status does not count what entries count.
        if _over_gloo(entry) or not isinstance(self.top.get("pg_status"), dict):
            return self._searched(self._window(WINDOWS[1]))
        self._get("completed")  # without it only active calls were asked for
        for size in WINDOWS:
            window = self._window(size)
            dump = self._parts(window, self._last_of_groups(window))
            if _accounted(dump):
                return dump
        return self._searched(self._window(WINDOWS[0]))

    def _searched(self, window: int) -> Dump:
        """Look for unfinished entries in the whole file, at twice the cost."""
        places = (*islice(self._unfinished(window), MAX_SCATTERED), *self._last_of_groups(window))
        return self._parts(window, places)

    def _parts(self, window: int, places: Iterable[int]) -> Dump:
        """Build the entries at some places and all from the window on."""
        scattered = tuple(islice(places, MAX_SCATTERED))
        if window <= self.first or len(scattered) == MAX_SCATTERED:
            raise _UnusualError
        wanted = {window, *map(self._start_of, scattered)}
        spans = self._with_definitions(wanted, window)
        built = zip(spans, self._built(spans), strict=True)
        return Dump(
            top=self.top,
            entries=[entry for (start, _), part in built if start in wanted for entry in part],
            first=self.first_entry,
            whole=False,
            cut=self.cut,
        )

    def _with_definitions(self, wanted: Iterable[int], window: int) -> list[tuple[int, int]]:
        """Find the entries in which something is memoised that others refer to.

        Some of the references are only bytes that look like one; a wrong entry does no harm.
        """
        known = set(self.known)
        spans: dict[int, int] = {}
        pending = list(wanted)
        while pending:
            start = pending.pop()
            if start in spans:
                continue
            spans[start] = end = self.end if start == window else self._next(start)
            referred = set(_REFERENCES.findall(self.data, start, end)) - known
            known |= referred
            for reference in referred:
                place = self._place_of(int.from_bytes(reference[1:], "little"))
                if 0 <= place < window:
                    pending.append(self._start_of(place))
        return sorted(spans.items())

    def _place_of(self, number: int) -> int:
        """Find where a number is given behind the first entry; -1 if it is hard to find."""
        place = self.memo.place_of(number, self.second)
        for _ in range(MAX_LOOKALIKES):
            # Short ones often look so behind an operation whose operand is their own code.
            lookalike = number < 256 and self.data[place - 1] in b"hqK"
            if place < 0 or not lookalike or self._is_operation(place):
                return place
            place = self.memo.place_of(number, place + 1)
        return -1

    def _is_operation(self, place: int) -> bool:
        """Return whether an operation begins at a place, which may be an operand that looks so."""
        try:
            return all(end for _, end, _ in operations(self.data[self._start_of(place) : place]))
        except BadPickleError:  # it ends within one
            return False

    def _built(self, spans: Iterable[tuple[int, int]]) -> list[list[object]]:
        """Build the entries of each span, all with one memo."""
        lists = [
            b"](" + checked(self.data[start:end], self.memo.count(start)) + b"e"
            for start, end in spans
        ]
        built = self.builder.build(b"](" + b"".join(lists) + b"e.")
        if not isinstance(built, list) or not all(isinstance(part, list) for part in built):
            raise _UnusualError
        return built

    def _header(self) -> int:
        """Build what stands before the entries; return the place of the first entry."""
        bare = _LIST.match(self.data, 2)  # torch 2.2
        if bare is not None:
            return bare.end()
        entries = _ENTRIES.search(self.data)
        if _DICT.match(self.data, 2) is None or entries is None:
            raise _UnusualError
        top = self.builder.build(checked(self.data[2 : entries.start()]) + b"u.")
        if not isinstance(top, dict):
            raise _UnusualError
        self.top = top
        return entries.end()

    def _cut_off(self) -> int:
        """Close a file that was cut off behind its last whole entry; return the end of that."""
        last = self._start_of(len(self.data))
        try:
            complete = any(self.data[at] == STOP for at, _, _ in operations(self.data, last))
        except BadPickleError:
            complete = False
        if complete or last <= self.first:
            raise _UnusualError  # not as the usual picklers end it, or there is no whole entry
        self.data = self.data[:last] + (b"eu." if self.top else b"e.")
        return last

    def _window(self, size: int) -> int:
        """Find where the last entries begin, not within a batch of sends and receives."""
        start = self.end
        for _ in range(size):
            start = self._start_of(start)
        in_batch = self._get("is_p2p") + b"\x88u"
        for _ in range(MAX_SCATTERED):
            if not self.data.endswith(in_batch, self.first, start):
                break
            start = self._start_of(start)
        return start

    def _unfinished(self, window: int) -> Iterator[int]:
        """Find places within unfinished entries before the window.

        gloo never leaves ``scheduled`` and tells by ``retired``. Elsewhere, members of a
        coalesced batch stay ``scheduled`` for ever; the entry that ends the batch tells.
        """
        if _over_gloo(self.first_entry):
            yield from self._places(self._pattern("retired") + rb"\x89", window)
            return
        state, flag = self._pattern("state"), b".{0,64}?" + self._pattern("is_p2p")
        unfinished = state + b"(?!" + self._pattern("completed") + b")"
        yield from self._places(unfinished + flag + rb"\x89u", window)
        ends = {self.memo.number_at(end.end()) for end in _BATCH_END.finditer(self.data)}
        if len(ends) >= MAX_SCATTERED:
            raise _UnusualError
        if not ends:
            yield from self._places(unfinished + flag + rb"\x88u", window)
        names = b"|".join(re.escape(get(end)) for end in ends)
        name = self._pattern("profiling_name") + b"(?:" + names + b")"
        if ends and any(
            self._places(name + b"(?:(?!" + state + b").){0,160}" + unfinished, window)
        ):
            raise _UnusualError  # a batch far back is unfinished; its members are needed as well

    def _places(self, pattern: bytes, window: int) -> Iterator[int]:
        matches = re.compile(pattern, re.DOTALL).finditer(self.data, self.first, window)
        return filter(self._is_operation, (match.start() for match in matches))

    def _last_place(self, operations: bytes, start: int, end: int) -> int:
        place = self.data.rfind(operations, start, end)
        while place >= 0 and not self._is_operation(place):
            place = self.data.rfind(operations, start, place)
        return place

    def _last_of_groups(self, window: int) -> Iterator[int]:
        """Find the last entry of each group that has none within the window."""
        key = self._get("process_group")
        config = self.top.get("pg_config")
        names = [name for name in config if name] if isinstance(config, dict) else []
        if names and self.by_torch:
            groups = {key + self._get(name) for name in names if isinstance(name, str)}
        else:  # those that entries name; the groups of gloo stand nowhere else
            yield from self._places(re.escape(key) + rb"[X\x8c]", window)
            pair = rb"(?:h.|j....)(?=h.\x86|j....\x86|[X\x8c])"
            references = re.compile(re.escape(key) + pair, re.DOTALL)
            groups = set(references.findall(self.data, self.first, window))
        for group in groups:
            if self._last_place(group, window, self.end) < 0:
                place = self._last_place(group, self.first, window)
                if place >= 0:
                    yield place

    def _pattern(self, text: str) -> bytes:
        return re.escape(self._get(text))

    def _get(self, text: str) -> bytes:
        """Return the reference to a text; ``_UnusualError`` if this dump has no such text."""
        if text not in self.numbers:
            encoded = text.encode("utf-8", "replace")
            size = re.escape(bytes((min(len(encoded), 255),)))
            written = rb"(?:X%b\0\0\0|\x8c%b)%b(?=[qr\x94])" % (size, size, re.escape(encoded))
            place = re.search(written, self.data)
            if place is None:
                raise _UnusualError
            self.numbers[text] = self.memo.number_at(place.end())
        return get(self.numbers[text])

    def _start_of(self, place: int) -> int:
        """Find the start of the entry that a place is in, or of the one that ends there."""
        at = self.data.rfind(self.marker, self.first, place)
        return self.first if at < 0 else self._opening(at)

    def _next(self, start: int) -> int:
        at = self.data.find(self.marker, start + 7, self.end)
        return self.end if at < 0 else self._opening(at)

    def _opening(self, at: int) -> int:
        """Find the operation for a dict that ends at a place."""
        opening = _OPENING.search(self.data, at - 6, at)
        if opening is None:
            raise _UnusualError
        return opening.start()


def _over_gloo(entry: object) -> bool:
    name = entry.get("profiling_name") if isinstance(entry, dict) else None
    return not isinstance(name, str) or name.startswith("gloo:")


def _accounted(dump: Dump) -> bool:
    """Return whether the built entries show all unfinished work that pg_status counts."""
    status = dump.top.get("pg_status")
    open_calls: dict[int | None, set[tuple[bool, int | None]]] = {}
    for entry in dump.entries:
        if not isinstance(entry, dict):
            continue
        p2p = entry.get("is_p2p") is True
        launch = (p2p, number(entry.get("p2p_seq_id" if p2p else "collective_seq_id")))
        own = open_calls.setdefault(number(entry.get("pg_id")), set())
        if entry.get("state") == "completed":
            own.discard(launch)  # the end of a batch, whose members never leave "scheduled"
        else:
            own.add(launch)
    return isinstance(status, dict) and all(
        _count(counts.get("last_enqueued_collective"))
        - _count(counts.get("last_completed_collective"))
        <= len(open_calls.get(number(group), ()))
        for group, counts in status.items()
        if isinstance(counts, dict)
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else -1

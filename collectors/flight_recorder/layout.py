"""Where things are in the pickle of a dump: the entries, and what they refer to.

The pickler of torch (``torch/csrc/jit/serialization/pickler.cpp``, protocol 2) and those of Python
write one dict per entry, keep each text and each frame once and then refer to it by number, so
every entry after the first begins with the same few bytes, and keys and values are found by
theirs. Entries are built by themselves, with those in which something that they refer to was
memoised.

torch and Python's protocols 2 and 3 write the numbers of the memo. In protocols 4 and 5 they are
counted, which takes looking at every operation up to the number that is asked for.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice

from whyhang.collectors.flight_recorder.pickles import (
    MAX_MEMO,
    MEMO,
    MEMOIZE,
    STOP,
    BadPickleError,
    Builder,
    checked,
    get,
    operations,
    put,
)

MAX_LOOKALIKES = 16
"""How many places that look as if a number was given there are tried."""

NEAR = 16_384
"""Bytes behind the first entry, about a hundred others, that are quicker built than chosen from."""

_DICT = re.compile(rb"\}%b\(" % MEMO, re.DOTALL)
_LIST = re.compile(rb"\]%b\(" % MEMO, re.DOTALL)
_ENTRIES = re.compile(rb"(?:X\x07\x00\x00\x00|\x8c\x07)entries%b\]%b\(" % (MEMO, MEMO), re.DOTALL)
_FIRST_KEY = re.compile(rb"\}%b\((?:X(.)\x00\x00\x00|\x8c(.))" % MEMO, re.DOTALL)
_OPENING = re.compile(rb"\}%b\Z" % MEMO, re.DOTALL)
# The last entry, the list of entries, the whole.
_CLOSING = re.compile(rb"u(e%b(?:u%b)?\.)\Z" % (MEMO, MEMO), re.DOTALL)
_MEMOIZED = re.compile(MEMOIZE)
_REFERENCES = re.compile(rb"(?:h|j..[\x00-\x0f]).", re.DOTALL)


class UnusualError(Exception):
    """The pickle is not laid out as those of torch and Python are, or not for what is asked."""


class Layout:
    """A dump's header and first entry, and the way to the others.

    ``top`` is what stands before the entries, ``first`` the place of the first entry, ``end`` that
    behind the last one. ``cut``: the file ended in the middle; ``data`` was closed behind its last
    whole entry. Raises ``UnusualError``, ``BadPickleError`` or ``UnsafePickleError``.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.by_torch = data.startswith((b"\x80\x02}(", b"\x80\x02]("))
        self.top: dict[object, object] = {}
        self._memo = _Memo(data)
        self._builder = Builder()
        self.first = self._header()
        key = _FIRST_KEY.match(data, self.first)
        if key is None:
            raise UnusualError
        number = self._memo.number_at(key.end() + (key[1] or key[2])[0])
        self._marker = b"(" + get(number)  # how entries go on behind the operation for a dict
        closing = _CLOSING.search(data, max(0, len(data) - 16))
        self.cut = closing is None
        self.end = closing.start(1) if closing is not None else self._cut_off()
        self._second = self.next_to(self.first)
        (entries,) = self._built([(self.first, self._second)])
        self.first_entry = entries[0] if entries else None
        memo = self._builder.memo()
        self._newest = max(memo, default=-1)  # numbers are given in ascending order
        self._numbers = {text: number for number, text in memo.items() if isinstance(text, str)}

    def _header(self) -> int:
        """Build what stands before the entries; return the place of the first entry."""
        bare = _LIST.match(self.data, 2)  # torch 2.2
        if bare is not None:
            return bare.end()
        entries = _ENTRIES.search(self.data)
        if _DICT.match(self.data, 2) is None or entries is None:
            raise UnusualError
        top = self._builder.build(checked(self.data[2 : entries.start()]) + b"u.")
        if not isinstance(top, dict):
            raise UnusualError
        self.top = top
        return entries.end()

    def _cut_off(self) -> int:
        """Close a file that was cut off behind its last whole entry; return the end of that."""
        last = self.start_of(len(self.data))
        try:
            complete = any(self.data[at] == STOP for at, _, _ in operations(self.data, last))
        except BadPickleError:
            complete = False
        if complete or last <= self.first:
            raise UnusualError  # not as the usual picklers end it, or there is no whole entry
        self.data = self.data[:last] + (b"eu." if self.top else b"e.")
        return last

    def start_of(self, place: int) -> int:
        """Return the start of the entry that a place is in, or of the one that ends there."""
        at = self.data.rfind(self._marker, self.first, place)
        return self.first if at < 0 else self._opening(at)

    def next_to(self, start: int) -> int:
        """Return the start of the entry behind the one that starts at a place."""
        at = self.data.find(self._marker, start + 7, self.end)
        return self.end if at < 0 else self._opening(at)

    def _opening(self, at: int) -> int:
        """Return where the operation for a dict begins that ends at a place."""
        opening = _OPENING.search(self.data, at - 6, at)
        if opening is None:
            raise UnusualError
        return opening.start()

    def reference(self, text: str) -> bytes:
        """Return the reference to a text; ``UnusualError`` if this dump has no such text."""
        if text not in self._numbers:
            encoded = text.encode("utf-8", "replace")
            size = re.escape(bytes((min(len(encoded), 255),)))
            written = rb"(?:X%b\0\0\0|\x8c%b)%b(?=[qr\x94])" % (size, size, re.escape(encoded))
            place = re.search(written, self.data)
            if place is None:
                raise UnusualError
            self._numbers[text] = self.number_at(place.end())
        return get(self._numbers[text])

    def number_at(self, place: int) -> int:
        """Return the number under which an object is memoised that ends at a place."""
        return self._memo.number_at(place)

    def places(self, pattern: bytes, end: int) -> Iterator[int]:
        """Yield where operations before ``end`` match a pattern."""
        matches = re.compile(pattern, re.DOTALL).finditer(self.data, self.first, end)
        return filter(self._is_operation, (match.start() for match in matches))

    def last_place(self, operations: bytes, start: int, end: int) -> int:
        """Return where operations stand last between two places, -1 if nowhere."""
        place = self.data.rfind(operations, start, end)
        while place >= 0 and not self._is_operation(place):
            place = self.data.rfind(operations, start, place)
        return place

    def _is_operation(self, place: int) -> bool:
        """Return whether an operation begins at a place, which may be an operand that looks so."""
        try:
            return all(end for _, end, _ in operations(self.data[self.start_of(place) : place]))
        except BadPickleError:  # it ends within one
            return False

    def entries(self, starts: set[int], window: int) -> list[object]:
        """Build the entries at some places, and all from the window on."""
        wanted = starts | {window}
        spans = self._with_definitions(wanted, window)
        _, *parts = self._built(spans)
        built = zip(spans[1:], parts, strict=True)
        return [entry for (start, _), part in built if start in wanted for entry in part]

    def _with_definitions(self, starts: Iterable[int], window: int) -> list[tuple[int, int]]:
        """Find the entries in which something is memoised that others refer to.

        Those near the first entry are one span, which comes first. Some of the references are
        only bytes that look like one; a wrong entry does no harm.
        """
        near, near_end = min(window, self._second + NEAR), self._second
        spans: dict[int, int] = {}
        looked_up: set[bytes] = set()
        pending = list(starts)
        while pending:
            start = pending.pop()
            if start in spans:
                continue
            spans[start] = end = self.end if start == window else self.next_to(start)
            references = set(_REFERENCES.findall(self.data, start, end)) - looked_up
            looked_up |= references
            for reference in references:
                number = int.from_bytes(reference[1:], "little")
                place = self._place_of(number) if number > self._newest else -1
                if place < near:
                    near_end = max(near_end, place)
                elif place < window:
                    pending.append(self.start_of(place))
        if near_end > self._second:
            near_end = self.next_to(self.start_of(near_end))
        return [(self._second, near_end), *sorted(spans.items())]

    def _place_of(self, number: int) -> int:
        """Return where a number is given behind the first entry; -1 if it is hard to find."""
        place = self._memo.place_of(number, self._second)
        for _ in range(MAX_LOOKALIKES):
            # Short ones often look so behind an operation whose operand is their own code.
            lookalike = number < 256 and self.data[place - 1] in b"hqK"
            if place < 0 or not lookalike or self._is_operation(place):
                return place
            place = self._memo.place_of(number, place + 1)
        return -1

    def _built(self, spans: Iterable[tuple[int, int]]) -> list[list[object]]:
        """Build the entries of each span, all with one memo."""
        lists = [
            b"](" + checked(self.data[start:end], self._memo.count(start)) + b"e"
            for start, end in spans
        ]
        built = self._builder.build(b"](" + b"".join(lists) + b"e.")
        parts = (
            [part for part in built if isinstance(part, list)] if isinstance(built, list) else []
        )
        if len(parts) != len(lists):
            raise UnusualError
        return parts


class _Memo:
    """Which numbers a pickle has memoised its objects under, and where."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.counted = data[1] >= 4
        # Where objects were memoised in the operations that were looked at, and the end of these.
        self.places: list[int] = []
        self.end = 2
        self.operations = operations(data, 2)

    def number_at(self, place: int) -> int:
        """Return the number that is given at a place."""
        code = self.data[place]
        if code == ord("q"):
            return self.data[place + 1]
        if code == ord("r"):
            return int.from_bytes(self.data[place + 1 : place + 5], "little")
        while self.end <= place and self._count_on():
            pass
        count = self.count(place)
        if count is None or code != MEMOIZE[0]:
            raise UnusualError
        return count

    def place_of(self, number: int, after: int) -> int:
        """Return where a number is given, -1 if nowhere; written ones ``after`` a place."""
        if not self.counted:
            return self.data.find(put(number), after)
        while len(self.places) <= number:
            if not self._count_on():
                return -1
        return self.places[number]

    def count(self, place: int) -> int | None:
        """Return how many objects were memoised before a place; None if not counted so far."""
        return bisect_left(self.places, place) if place <= self.end else None

    def _count_on(self) -> bool:
        try:
            start, self.end, ordinary = next(self.operations)
        except (StopIteration, BadPickleError):
            return False
        if ordinary:
            memoised = _MEMOIZED.finditer(self.data, start, self.end)
            self.places += (at.start() for at in islice(memoised, MAX_MEMO))
        return len(self.places) < MAX_MEMO

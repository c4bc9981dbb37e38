"""The C unpickler, made safe and able to start in the middle of a pickle.

Safe: every byte is read token by token before it gets there. Only opcodes that build plain data
pass, memo numbers are bounded, tuples are never remembered (so that nothing grows
exponentially), and ``find_class`` refuses on top of that.

In the middle: a piece refers to texts and frames by numbers that were given further up. Its
memo starts out with a stand-in for each number, and those that turn up in what was built are
looked up then: where number 17 was given stands a text, or the dict of a frame.
"""

from __future__ import annotations

import functools
import io
import pickle
import re
from typing import NoReturn

MAX_NUMBER = 1 << 20
"""The largest memo number that is let through: each takes 16 bytes of memory at once."""

_TOKENS = re.compile(
    rb"(?:h.|[\]\}\(euN\x88\x89]+|K.|j..[\x00-\x0f]\x00|q.|M..|J....|\x8a\x08.{8}"
    rb"|r..[\x00-\x0f]\x00|G.{8}|\x86(?![qr])){1,400}",
    re.DOTALL,
)
# What the documentation of pickle says may be raised, and what was seen on damaged dumps.
_FAILURES = (
    *(pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, KeyError),
    *(MemoryError, OverflowError, TypeError, ValueError),
)
_TEXT = ord("X")
_STOP = ord(".")
_MAX_TEXT = 1 << 14


class UnexpectedError(Exception):
    """The bytes are not what torch would have written."""


class _PlainUnpickler(pickle.Unpickler):
    """The C unpickler without the one thing that makes unpickling dangerous."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        """Refuse; the token check before makes sure that this is never asked."""
        raise pickle.UnpicklingError(f"{module}.{name}")


class Builder:
    """Builds pieces of one pickle, each with the memo that those before it have left.

    ``numbers`` is how many numbers the pickle gives, or None to let a piece fail that refers
    to what was not built.
    """

    def __init__(self, data: bytes, numbers: int | None = None) -> None:
        self.data = data
        self._machine = None if numbers is None else _blank(numbers)
        self._found: dict[bytes, object] = {}

    def load(self, stream: bytes) -> object:
        """Build one piece, given as a whole pickle.

        Raises ``UnexpectedError`` for a token that is not allowed, and for tokens that do not
        fit together.
        """
        if token_end(stream, 2) != len(stream):
            raise UnexpectedError
        machine = _PlainUnpickler(io.BytesIO(stream))
        if self._machine is not None:
            # Only from one machine to the next: CPython loses what a dict is assigned here.
            machine.memo = self._machine.memo
        try:
            value: object = machine.load()
        except _FAILURES as error:
            raise UnexpectedError from error
        self._machine = machine
        return value

    def fill(self, entry: object) -> None:
        """Put what the numbers stand for in the place of the stand-ins, in an entry or a frame."""
        if not isinstance(entry, dict):
            raise UnexpectedError
        odd = []
        for key, item in entry.items():
            kind = type(item)
            if type(key) is bytes:
                odd.append(key)
            if kind is bytes or kind is list or kind is tuple:
                entry[key] = self._filled(item)
        for key in odd:
            name = self._looked_up(key)
            if not isinstance(name, str):
                raise UnexpectedError
            entry[name] = entry.pop(key)

    def _filled(self, item: object) -> object:
        if isinstance(item, bytes):
            return self._looked_up(item)
        if isinstance(item, tuple):
            return tuple([self._filled(part) if type(part) is bytes else part for part in item])
        if isinstance(item, list) and item and type(item[0]) is not list:  # else these are shapes
            for place, part in enumerate(item):
                if isinstance(part, bytes):
                    item[place] = self._looked_up(part)
                elif isinstance(part, dict) and bytes in map(type, part.values()):
                    self.fill(part)
        return item

    def _looked_up(self, stand_in: bytes) -> object:
        if stand_in not in self._found:
            self._found[stand_in] = None  # for one that is defined by itself
            self._found[stand_in] = self._definition(int.from_bytes(stand_in, "little"))
        return self._found[stand_in]

    def _definition(self, number: int) -> object:
        """Find where a number was given, and build what stands there."""
        mark = given(number)
        at = self.data.find(mark)
        while at >= 0:
            found = self._dict_before(at) if self.data[at - 1 : at] == b"u" else None
            found = self._text_before(at) if found is None else found
            if found is not None:
                return found
            at = self.data.find(mark, at + 1)
        raise UnexpectedError

    def _text_before(self, at: int) -> str | None:
        earliest = max(0, at - _MAX_TEXT)
        start = self.data.rfind(b"X", earliest, at - 4)
        while start >= 0:
            if int.from_bytes(self.data[start + 1 : start + 5], "little") == at - start - 5:
                return self.data[start + 5 : at].decode("utf-8", "replace")
            start = self.data.rfind(b"X", earliest, start)
        return None

    def _dict_before(self, at: int) -> object:
        """Build the dict that ends here: a frame, in which only texts and a number stand."""
        start = self.data.rfind(b"}(", max(0, at - _MAX_TEXT), at)
        try:
            found = self.load(b"\x80\x02" + self.data[start:at] + b".") if start >= 0 else None
        except UnexpectedError:
            return None
        if isinstance(found, dict):
            self.fill(found)
        return found


@functools.lru_cache(maxsize=8)
def _blank(numbers: int) -> _PlainUnpickler:
    """Make an unpickler whose memo holds a stand-in for each number: itself, in four bytes."""
    size = 512
    while size < numbers:
        size *= 2
    written = (n.to_bytes(4, "little") for n in range(size))
    stream = b"".join(b"C\x04" + n + b"r" + n + b"0" for n in written)
    machine = _PlainUnpickler(io.BytesIO(b"\x80\x03" + stream + b"N."))
    machine.load()
    return machine


def token_end(data: bytes, at: int = 0) -> int | None:
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


def given(number: int) -> bytes:
    """Write BINPUT or LONG_BINPUT as torch does."""
    return bytes((ord("q"), number)) if number < 256 else b"r" + number.to_bytes(4, "little")


def reference(number: int) -> bytes:
    """Write BINGET or LONG_BINGET as torch does."""
    return bytes((ord("h"), number)) if number < 256 else b"j" + number.to_bytes(4, "little")


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """Read BINPUT or LONG_BINPUT; give the number and the place after it."""
    if data[at] == ord("q"):
        return data[at + 1], at + 2
    if data[at] == ord("r"):
        return int.from_bytes(data[at + 1 : at + 5], "little"), at + 5
    raise UnexpectedError

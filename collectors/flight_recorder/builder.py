"""The C unpickler, made safe and able to start in the middle of a pickle.

Safe: every byte is read token by token before it gets there. Only opcodes that build plain data
pass, memo numbers are bounded, tuples are never remembered (so that nothing grows
exponentially), and ``find_class`` refuses on top of that.

In the middle: a piece refers to texts and frames by numbers that were given further up. Those
that nothing built so far has given are looked for: where number 17 was given stands a text, or
the dict of a frame, and its bytes are put in front of the piece.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterator
from typing import NoReturn

# Of texts only the short ones; each takes a branch, with its length.
_SHORT_TEXTS = b"|".join(re.escape(bytes((n,))) + rb"\x00\x00\x00.{%d}" % n for n in range(48))
_TOKENS = re.compile(
    rb"(?:h.|[\]\}\(euN\x88\x89]+|K.|j..[\x00-\x0f]\x00|q.|M..|J....|\x8a\x08.{8}"
    rb"|r..[\x00-\x0f]\x00|G.{8}|\x86(?![qr])|X(?:" + _SHORT_TEXTS + rb")){1,400}",
    re.DOTALL,
)
# What the documentation of pickle says may be raised, and what was seen on damaged dumps.
_FAILURES = (
    *(pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, KeyError),
    *(MemoryError, OverflowError, TypeError, ValueError),
)
_REFERENCES = re.compile(rb"h(.)|j(..[\x00-\x0f]\x00)", re.DOTALL)
_TEXT = ord("X")
_SET_ITEMS = ord("u")
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
    """Builds pieces of one pickle, each with the memo that those before it have left."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._machine: _PlainUnpickler | None = None

    def load(self, stream: bytes) -> object:
        """Build one piece, given as a whole pickle.

        Raises ``UnexpectedError`` for a token that is not allowed, and for tokens that do not
        fit together.
        """
        if token_end(stream, 2) != len(stream):
            raise UnexpectedError
        # Buffered: it asks a plain BytesIO for each token by itself, at five times the cost.
        machine = _PlainUnpickler(io.BufferedReader(io.BytesIO(stream), len(stream)))
        if self._machine is not None:
            # Only from one machine to the next: CPython loses what a dict is assigned here.
            machine.memo = self._machine.memo
        try:
            value: object = machine.load()
        except _FAILURES as error:
            raise UnexpectedError from error
        self._machine = machine
        return value

    def load_list(self, items: bytes, after: int) -> list[object]:
        """Build a list from the tokens of its items, which stand anywhere behind ``after``.

        What they refer to and was not built yet was given somewhere between ``after`` and
        them; those definitions are built in front of them.
        """
        known = set(self._machine.memo.copy()) if self._machine is not None else set()
        definitions = b"".join(self._definitions(items, known, after))
        stream = b"\x80\x02](" + definitions + b"e](" + items + b"e\x86."
        value = self.load(stream)
        if not isinstance(value, tuple) or not isinstance(value[1], list):
            raise UnexpectedError
        return value[1]

    def _definitions(self, tokens: bytes, known: set[int], after: int) -> Iterator[bytes]:
        """Find what stands where numbers were given, those that come first in front.

        Some of those looked for are only bytes of other tokens that look like a reference, and
        no harm is done if they are not found.
        """
        at = after
        for number in sorted(_referred(tokens) - known):
            known.add(number)
            found = self._definition(number, at)  # numbers are given in ascending order
            if found is None:
                continue
            start, at = found
            definition = self.data[start:at]
            if definition[:1] == b"}":  # a frame, which refers to texts further up
                yield from self._definitions(definition, known, after)
            yield definition

    def _definition(self, number: int, after: int) -> tuple[int, int] | None:
        """Find where a text or a frame was given a number: its place, and the one behind it."""
        mark = given(number)
        at = self.data.find(mark, after)
        while at >= 0:
            start = self._start_of(at)
            if start is not None:
                return start, at + len(mark)
            at = self.data.find(mark, at + 1)
        return None

    def _start_of(self, at: int) -> int | None:
        """Find the start of the text or dict that ends here."""
        data = self.data
        earliest = max(0, at - _MAX_TEXT)
        if data[at - 1] == _SET_ITEMS:
            start = data.rfind(b"}(", earliest, at)
            if start >= 0 and token_end(data[start:at] + b".") == at - start + 1:
                return start
        start = data.rfind(b"X", earliest, at - 4)
        while start >= 0:
            if int.from_bytes(data[start + 1 : start + 5], "little") == at - start - 5:
                return start
            start = data.rfind(b"X", earliest, start)
        return None


def _referred(tokens: bytes) -> set[int]:
    """List the numbers that tokens refer to, and some more."""
    found = set(_REFERENCES.findall(tokens))
    return {int.from_bytes(short or long, "little") for short, long in found}


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

"""Plain values of a recorder's entries: texts, numbers, shapes, frames. Nothing here raises.

What is read is kept once for all ranks: thousands of dumps of one job hold the same shapes
and the same stacks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TypeAlias, TypeVar, cast

from whyhang.analyzer.facts import Frame

MAX_TEXT = 4096
MAX_STACKS = 65536
MAX_NUMBER = 1 << 64
"""Pickles hold numbers of any length; torch's have 64 bits."""
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
T = TypeVar("T")


def time_created(entry: dict[object, object]) -> float | None:
    """Read when an entry was made, in seconds since the epoch."""
    nanoseconds = number(entry.get("time_created_ns"))
    if nanoseconds is not None:
        return nanoseconds / 1e9
    microseconds = number(entry.get("time_created_us"))  # torch 2.2
    return microseconds / 1e6 if microseconds is not None else None


def sizes(value: object) -> Shapes | None:
    """Read a list of shapes."""
    if not isinstance(value, list | tuple):
        return None
    shapes = [
        tuple(size for size in shape if isinstance(size, int) and abs(size) < MAX_NUMBER)
        for shape in value
        if isinstance(shape, list | tuple)
    ]
    return _one_copy(tuple(shapes))


def dtypes(entry: dict[object, object]) -> tuple[str, ...]:
    """Read the types of the inputs, or else of the outputs."""
    for key in ("input_dtypes", "output_dtypes"):
        value = entry.get(key)
        if isinstance(value, list | tuple) and value:
            return _one_copy(tuple(text(dtype) for dtype in value))
    return ()


def frames(value: object, known: dict[int, Frame]) -> tuple[Frame, ...]:
    """Read a stack, innermost first; JSON dumps have none.

    ``known`` holds the frames of this dump by identity: entries of one dump share them.
    """
    if not isinstance(value, list):
        return ()
    stack = [known.get(id(frame)) or _known_frame(frame, known) for frame in value]
    # By identity: hashing the frames of a deep stack takes longer than reading it.
    key = tuple(map(id, stack))
    shared = _stacks.get(key)
    if shared is None:
        if len(_stacks) >= MAX_STACKS:
            _stacks.clear()
        shared = _stacks[key] = tuple(stack)
    return shared


_stacks: dict[tuple[int, ...], tuple[Frame, ...]] = {}


def _known_frame(frame: object, known: dict[int, Frame]) -> Frame:
    if not isinstance(frame, dict):
        frame = {}
    name, file, line = frame.get("name"), frame.get("filename"), frame.get("line")
    if not (type(name) is type(file) is str and type(line) is int):
        name, file, line = text(name), text(file), number(line)
    found = known[id(frame)] = _frame(name, file, line)
    return found


@functools.lru_cache(maxsize=65536)
def _frame(name: str, file: str, line: int | None) -> Frame:
    name, file = text(name), text(file)
    native = file.endswith((".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".so"))
    return Frame(function=name, file=file, line=line, native=native)


def _one_copy(value: T) -> T:
    """Give the first of all equal values, so that thousands of ranks share it."""
    return cast("T", _first_equal(value))


@functools.lru_cache(maxsize=65536)
def _first_equal(value: object) -> object:
    return value


def join(parts: Iterable[Shapes | None]) -> Shapes | None:
    """Put the shapes of several calls behind one another."""
    return _one_copy(tuple(shape for part in parts if part for shape in part))


def text(value: object) -> str:
    """Read text that can be printed; whatever else there is counts as none."""
    if not isinstance(value, str):
        return ""
    if not value.isascii():  # a lone surrogate could not be written into any report
        value = value.encode("utf-8", "replace").decode("utf-8")
    return value[:MAX_TEXT]


def number(value: object) -> int | None:
    """Read a number; JSON dumps and some tests write it as text. Too large ones count as none."""
    if type(value) is int:
        return value if abs(value) < MAX_NUMBER else None
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 20:
        return int(value)
    return None

"""Writes recorder dumps byte for byte as torch's pickler lays them out.

``torch/csrc/jit/serialization/pickler.cpp``, protocol 2: each text is written once and then
referred to by its number, and so is each frame that is used twice; the rest is written out. What a
real dump over gloo holds was compared opcode by opcode (``tests/test_flight_recorder.py``).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence


class TorchPickler:
    """Collects opcodes. ``once`` are the frames that only one entry has."""

    def __init__(self, once: frozenset[Frame] = frozenset()) -> None:
        self.parts: list[bytes] = [b"\x80\x02"]
        self.memo: dict[object, bytes] = {}  # how each thing written is referred to
        self.once = once

    def written(self) -> bytes:
        """Return everything written so far."""
        return b"".join(self.parts)

    def write(self, *opcodes: bytes) -> None:
        """Write opcodes as they are."""
        self.parts += opcodes

    def text(self, value: str) -> None:
        """Write text, or refer to it."""
        if (known := self.memo.get(value)) is not None:
            self.parts.append(known)
            return
        encoded = value.encode()
        self.write(b"X", struct.pack("<I", len(encoded)), encoded)
        self.remember(value)

    def remember(self, key: object) -> None:
        """Memoise what was written last."""
        number = len(self.memo)
        self.memo[key] = reference(number)
        self.write(bytes((ord("q"), number)) if number < 256 else b"r" + struct.pack("<I", number))

    def value(self, value: object) -> None:
        """Write any plain value."""
        if isinstance(value, str):
            self.text(value)
        elif value is None or isinstance(value, bool):
            self.parts.append(_SIMPLE[value])
        elif isinstance(value, int):
            self.parts.append(integer(value))
        elif isinstance(value, Frame):
            self.frame(value)
        elif isinstance(value, list | tuple):
            self.write(b"" if isinstance(value, tuple) else b"](")
            for item in value:
                self.value(item)
            self.write(b"\x86" if isinstance(value, tuple) else b"e")
        elif isinstance(value, Mapping):
            self.mapping(value)
        else:
            raise TypeError(type(value))

    def mapping(self, value: Mapping[str, object]) -> None:
        """Write a dict."""
        self.write(b"}(")
        for key, item in value.items():
            self.text(key)
            self.value(item)
        self.write(b"u")

    def frame(self, frame: Frame) -> None:
        """Write a frame, or refer to it."""
        if (known := self.memo.get(frame)) is not None:
            self.parts.append(known)
            return
        self.mapping({"name": frame.name, "filename": frame.filename, "line": frame.line})
        if frame not in self.once:
            self.remember(frame)


_SIMPLE: dict[object, bytes] = {None: b"N", True: b"\x88", False: b"\x89"}


class Frame:
    """A stack frame that entries share; equal only to itself."""

    def __init__(self, name: str, filename: str, line: int) -> None:
        self.name, self.filename, self.line = name, filename, line


def integer(value: int) -> bytes:
    """Write an integer in the shortest of the four ways torch uses."""
    if 0 <= value <= 0xFF:
        return bytes((ord("K"), value))
    if 0 <= value <= 0xFFFF:
        return b"M" + struct.pack("<H", value)
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def reference(number: int) -> bytes:
    """Refer to something by its number."""
    return bytes((ord("h"), number)) if number < 256 else b"j" + struct.pack("<I", number)


def dump(top: Mapping[str, object], entries: Sequence[Mapping[str, object]]) -> bytes:
    """Write a whole dump: the header's fields, then the entries."""
    uses = Counter(frame for entry in entries for frame in _frames(entry))
    pickler = TorchPickler(frozenset(frame for frame, count in uses.items() if count == 1))
    pickler.write(b"}(")
    for key, value in top.items():
        pickler.text(key)
        pickler.value(value)
    pickler.text("entries")
    pickler.write(b"](")
    for entry in entries:
        pickler.mapping(entry)
    pickler.write(b"eu")
    pickler.remember(None)
    pickler.write(b".")
    return pickler.written()


def _frames(entry: Mapping[str, object]) -> list[Frame]:
    frames = entry.get("frames")
    return [f for f in frames if isinstance(f, Frame)] if isinstance(frames, list) else []

"""Read a stream into memory that is at hand: fresh memory costs as much as reading."""

from __future__ import annotations

import io
from typing import BinaryIO


def read_into(stream: BinaryIO, data: bytearray, at: int, size: int) -> int:
    """Read up to ``size`` bytes to a place in ``data``, and give how many there were.

    Raises what the stream raises.
    """
    if isinstance(stream, io.BufferedIOBase | io.RawIOBase):
        with memoryview(data) as view, view[at : at + size] as free:
            return stream.readinto(free) or 0
    chunk = stream.read(size)
    data[at : at + len(chunk)] = chunk
    return len(chunk)

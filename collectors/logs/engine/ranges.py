"""A large log on disk in blocks that can be read in any order, by the threads that search them.

Block number n holds the lines that begin in the n-th stretch of ``READ`` bytes. Where a line
begins is seen alike from both sides of a boundary, so no block has to wait for the one before.
Only what the file held at the beginning is read: a log may grow meanwhile, or shrink.
"""

from __future__ import annotations

import functools
import io
import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

from whyhang.collectors.logs.engine.blocks import (
    AHEAD,
    BEHIND,
    NEWLINE,
    OVERLAP,
    READ,
    Block,
    Buffers,
    Progress,
)

CUT = 64 << 10
"""Bytes behind a boundary in which a line break is looked for; a longer line is cut there."""


def ranges(stream: BinaryIO, on_bytes: Progress) -> Iterator[Callable[[], Block]] | None:
    """Return what reads each block of a file, in order; None for what is no large file on disk.

    ``on_bytes`` is called with the size of each block as it is given out. Reading raises
    ``OSError``.
    """
    if not isinstance(stream, io.BufferedReader) or not hasattr(os, "preadv"):
        return None
    try:
        state = os.fstat(stream.fileno())
    except (OSError, ValueError):  # it is no file of the system
        return None
    if not stat.S_ISREG(state.st_mode) or state.st_size <= READ:
        return None
    return _ranges(_File(stream.fileno(), state.st_size), on_bytes)


def _ranges(file: _File, on_bytes: Progress) -> Iterator[Callable[[], Block]]:
    for at in range(0, file.size, READ):
        on_bytes(min(READ, file.size - at))
        yield functools.partial(file.block, at)


class _File:
    """A file that stays open while it is read."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.size = size
        self._descriptor = descriptor
        self._buffers = Buffers.of(BEHIND + READ + AHEAD + 1)

    def block(self, at: int) -> Block:
        """Read the lines that begin in the stretch at an offset, and what stands around them."""
        data = self._buffers.take()
        base = max(0, at - BEHIND)
        end = self._read(data, base, min(self.size, at + READ + AHEAD) - base)
        data[end] = NEWLINE
        known = _boundary(data, at - base, end)
        start = known
        if known and data[known - 1] != NEWLINE:  # within a long line
            start = max(known - OVERLAP, data.rfind(b"\n", 0, known) + 1)
        over = at + READ - base
        stop = end if at + READ >= self.size else _boundary(data, over, end)
        block = Block(data, start=start, stop=max(stop, start), end=end, known=known, base=base)
        block.release = self._buffers.giver(data)
        return block

    def _read(self, data: bytearray, offset: int, size: int) -> int:
        """Fill ``data`` with up to ``size`` bytes of the file, and give how many there were."""
        got = 0
        with memoryview(data) as view:
            while got < size:
                with view[got:size] as free:
                    more = os.preadv(self._descriptor, [free], offset + got)
                if not more:
                    break
                got += more
        return got


def _boundary(data: bytearray, at: int, end: int) -> int:
    """Find where the first line begins at or behind a place; a long line is cut there."""
    if at == 0 or at >= end:
        return min(at, end)
    newline = data.find(b"\n", at - 1, min(end, at + CUT))
    return newline + 1 if newline >= 0 else at

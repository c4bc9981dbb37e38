"""A log cut into blocks, one after the other or, of a large file on disk, in any order.

Block number n holds the lines that begin in the n-th stretch of ``READ`` bytes. Where a line
begins is seen alike from both sides of a boundary, so no block has to wait for the one before,
and the threads that search them can read them, too.

Reading into memory instead of mapping the file costs a tenth more time and lives through what
logs do: they are rotated, truncated and still being written while they are read. (A mapped
file that shrinks ends the process with SIGBUS.)
"""

from __future__ import annotations

import functools
import io
import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

from whyhang.collectors.files.pieces import read_into
from whyhang.collectors.logs.engine.block import Block

READ = 4 << 20  # bytes in which the lines of a block begin
PIECE = 128 << 10  # bytes of a stream read at once; what a decompressor has when it fails is lost
BEHIND = 64 << 10  # bytes kept before them
AHEAD = 256 << 10  # bytes seen behind them
CUT = 64 << 10  # of these, bytes in which a line's end is looked for; a longer line is cut
OVERLAP = 8 << 10  # of two blocks within one endless line
NEWLINE = 0x0A

Progress = Callable[[int], None]
"""Is called with numbers of bytes that were read."""


class Buffers:
    """Buffers of one size that are used again: fresh memory costs as much as reading."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free: list[bytearray] = []

    @staticmethod
    @functools.cache
    def of(size: int) -> Buffers:
        """Return those of a size, which all files share."""
        return Buffers(size)

    def take(self) -> bytearray:
        """Return one that is free; what it holds is of no meaning."""
        try:
            return self._free.pop()
        except IndexError:  # asked without looking first: threads take them, too
            return bytearray(self._size)

    def giver(self, buffer: bytearray) -> Callable[[], None]:
        """Return what gives a buffer back, once."""
        given: list[bytearray] = [buffer]

        def give() -> None:
            if given:
                self._free.append(given.pop())

        return give


def blocks(
    stream: BinaryIO, *, read: int = READ, on_bytes: Progress = lambda _: None
) -> Iterator[Block]:
    """Cut a stream into blocks; ``on_bytes`` is called with every number of bytes read.

    Raises what the stream raises, after the blocks that came before have been given.
    """
    buffers = Buffers.of(BEHIND + read + AHEAD + 1)
    data = buffers.take()
    at = base = end = 0  # in the file, the stretch and the data begin; the data's length
    more, failure = True, None
    while more or end > at - base:
        while more and (free := at + read + AHEAD - base - end) > 0:
            try:
                got = read_into(stream, data, end, min(PIECE, free))
            except Exception as error:  # noqa: BLE001 - any decompressor's; raised again below
                got, failure = 0, error
            more = got > 0
            end += got
            on_bytes(got)
        if end == at - base:
            break
        block = _cut(data, at, base, end, read=read, last=end <= at + read - base)
        block.release = buffers.giver(data)
        following = buffers.take()
        at += read
        gone = max(0, min(at - BEHIND - base, end))
        with memoryview(following) as target, memoryview(data) as rest:
            target[: end - gone] = rest[gone:end]
        yield block
        data, base, end = following, base + gone, end - gone
    if failure is not None:
        raise failure


def ranges(stream: BinaryIO, on_bytes: Progress) -> Iterator[Callable[[], Block]] | None:
    """Return what reads each block of a file, in order; None for what is no large file on disk.

    Only what the file held at the beginning is read: a log may grow meanwhile, or shrink.
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
    return _ranges(stream.fileno(), state.st_size, on_bytes)


def _ranges(descriptor: int, size: int, on_bytes: Progress) -> Iterator[Callable[[], Block]]:
    for at in range(0, size, READ):
        on_bytes(min(READ, size - at))
        yield functools.partial(_block_at, descriptor, size, at)


def _block_at(descriptor: int, size: int, at: int) -> Block:
    """Read the lines that begin in the stretch at an offset, and what stands around them."""
    buffers = Buffers.of(BEHIND + READ + AHEAD + 1)
    data = buffers.take()
    base = max(0, at - BEHIND)
    want = min(size, at + READ + AHEAD) - base
    end = 0
    with memoryview(data) as view:
        while end < want:
            with view[end:want] as free:
                got = os.preadv(descriptor, [free], base + end)
            if not got:
                break
            end += got
    block = _cut(data, at, base, end, read=READ, last=at + READ >= size)
    block.release = buffers.giver(data)
    return block


def _cut(data: bytearray, at: int, base: int, end: int, *, read: int, last: bool) -> Block:
    """Make a block of the lines that begin in the stretch at an offset of the file.

    ``data`` holds the file from ``base`` on, up to ``end`` bytes.
    """
    data[end] = NEWLINE
    known = _boundary(data, at - base, end)
    start = known
    if known and data[known - 1] != NEWLINE:  # within a long line
        start = max(known - OVERLAP, data.rfind(b"\n", 0, known) + 1)
    stop = end if last else _boundary(data, at + read - base, end)
    return Block(data, start=start, stop=max(stop, start), end=end, known=known, base=base)


def _boundary(data: bytearray, at: int, end: int) -> int:
    """Return where the first line begins at or behind a place; a long line is cut there."""
    if at == 0 or at >= end:
        return min(at, end)
    newline = data.find(b"\n", at - 1, min(end, at + CUT))
    return newline + 1 if newline >= 0 else at

"""A log cut into blocks, one after the other or, of a large file on disk, in any order.

Block number n holds the lines that begin in the n-th stretch of ``READ`` bytes. Where a line
begins is seen alike from both sides of a boundary, so no block has to wait for the one before,
and the threads that search them can read them, too.

Reading into memory instead of mapping the file costs a tenth more time and lives through what
logs do: they are rotated, truncated and still being written while they are read. (A mapped
file that shrinks ends the process with SIGBUS.)
"""

from __future__ import annotations

import bisect
import functools
import io
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import BinaryIO

LONGEST = 16 << 10  # bytes of a line that are looked at
ESCAPE = b"\x1b"
COLOUR = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")


Hit = tuple[int, int]
"""Where a match may end (offset in the lines of a block, just behind it), and its pattern."""


class Block:
    """Lines ``data[start:stop]`` that begin at byte ``base + start`` of the file.

    What stands before ``start`` and behind ``stop`` (up to ``end``) belongs to other blocks, and
    is there to be looked at; ``data`` holds at least one byte more. Within a line too long for
    one block, blocks overlap: what ends at or before ``known`` was in the block before. ``line``
    is the number of the line at ``start``, to be set before ``line_at`` is asked. After
    ``release`` the data is no longer this block's.
    """

    def __init__(
        self, data: bytes | bytearray, *, start: int, stop: int, end: int, known: int, base: int
    ) -> None:
        self.data = data
        self.start = start
        self.stop = stop
        self.end = end
        self.known = known
        self.base = base
        self.line = 1
        self.release: Callable[[], None] = lambda: None
        self._counted = start
        self._breaks = 0
        self._total: int | None = None

    def survey(self) -> None:
        """Look at all of it, in a thread with time to spare: its lines are counted."""
        self._total = self.data.count(b"\n", self.start, self.stop)
        _ = self.coloured

    @functools.cached_property
    def coloured(self) -> bool:
        """Return whether colours may stand within what is looked for."""
        return self.data.find(ESCAPE, self.start, self.stop) >= 0

    def line_at(self, offset: int) -> int:
        """Return the 1-based number of the line at an offset; cheap if the offsets rise."""
        if offset == self.stop and self._total is not None:
            return self.line + self._total
        if offset < self._counted:
            return self.line + self._breaks - self.data.count(b"\n", offset, self._counted)
        self._breaks += self.data.count(b"\n", self._counted, offset)
        self._counted = offset
        return self.line + self._breaks

    def file_offset(self, offset: int) -> int:
        """Return the place in the file of a place in the block."""
        return self.base + offset

    def segment(self, offset: int, longest: int) -> tuple[int, int]:
        r"""Return the start and end of what a person sees as a line around the byte at ``offset``.

        Progress bars write many of them into one line, each behind a ``\r``. Of longer ones
        than ``longest`` bytes the part around the offset is given.
        """
        # No further than what is given: a log of one line would be run through for each hit.
        low, high = max(0, offset - longest), min(self.end, offset + longest)
        start = max(self.data.rfind(mark, low, offset) for mark in (b"\n", b"\r")) + 1 or low
        ends = [at for mark in (b"\n", b"\r") if (at := self.data.find(mark, offset, high)) >= 0]
        end = min(ends, default=high)
        if end - start > longest:
            start = max(start, offset - longest // 4)
            end = min(end, start + longest)
        return start, end

    def bounds(self, offset: int) -> tuple[int, int]:
        """Return the start and end of the line that holds the byte at ``offset``."""
        end = self.data.find(b"\n", offset, self.end)
        return self.data.rfind(b"\n", 0, offset) + 1, end if end >= 0 else self.end


class PlainBlock(Block):
    """A block without colours, that still knows the place in the file of each byte."""

    def __init__(self, block: Block) -> None:
        cuts: list[tuple[int, int]] = []  # place behind each cut, and all bytes cut up to there
        removed = 0
        data = bytes(block.data[: block.end])
        for colour in COLOUR.finditer(data):
            removed += colour.end() - colour.start()
            cuts.append((colour.end() - removed, removed))
        self._cuts = cuts
        plain = COLOUR.sub(b"", data)
        super().__init__(
            plain + b"\n",
            start=len(COLOUR.sub(b"", data[: block.start])),
            stop=len(COLOUR.sub(b"", data[: block.stop])),
            end=len(plain),
            known=len(COLOUR.sub(b"", data[: block.known])),
            base=block.base,
        )
        self.line = block.line

    def file_offset(self, offset: int) -> int:
        """Return the place in the file of a place in the block."""
        at = bisect.bisect_right(self._cuts, (offset, self.end << 8)) - 1
        return self.base + offset + (self._cuts[at][1] if at >= 0 else 0)


READ = 4 << 20  # bytes in which the lines of a block begin
PIECE = 128 << 10  # bytes of a stream read at once; what a decompressor has when it fails is lost
BEHIND = 64 << 10  # bytes kept before them
AHEAD = 256 << 10  # bytes seen behind them
CUT = 64 << 10  # of these, bytes in which a line's end is looked for; a longer line is cut
OVERLAP = 8 << 10  # of two blocks within one endless line
NEWLINE = 0x0A

Progress = Callable[[int], None]
"""Is called with numbers of bytes that were read."""


_FREE: defaultdict[int, list[bytearray]] = defaultdict(list)
"""Buffers to be used again, by size: fresh memory costs as much as reading."""


def _buffer(read: int) -> bytearray:
    """Return a buffer for blocks of a size, which all files share; what it holds has no meaning."""
    size = BEHIND + read + AHEAD + 1
    try:
        return _FREE[size].pop()
    except IndexError:  # asked without looking first: threads take them, too
        return bytearray(size)


def blocks(
    stream: BinaryIO, *, read: int = READ, on_bytes: Progress = lambda _: None
) -> Iterator[Block]:
    """Cut a stream into blocks; ``on_bytes`` is called with every number of bytes read.

    Raises what the stream raises, after the blocks that came before have been given.
    """
    data = _buffer(read)
    at = base = end = 0  # in the file, the stretch and the data begin; the data's length
    more, failure = True, None
    while more or end > at - base:
        while more and (free := at + read + AHEAD - base - end) > 0:
            try:
                got = _read_into(stream, data, end, min(PIECE, free))
            except Exception as error:  # noqa: BLE001 - any decompressor's; raised again below
                got, failure = 0, error
            more = got > 0
            end += got
            on_bytes(got)
        if end == at - base:
            break
        block = _cut(data, at, base, end, read=read, last=end <= at + read - base)
        following = _buffer(read)
        at += read
        gone = max(0, min(at - BEHIND - base, end))
        with memoryview(following) as target, memoryview(data) as rest:
            target[: end - gone] = rest[gone:end]
        yield block
        data, base, end = following, base + gone, end - gone
    if failure is not None:
        raise failure


def _read_into(stream: BinaryIO, data: bytearray, at: int, size: int) -> int:
    """Read up to ``size`` bytes to a place in ``data``, and give how many there were.

    Fresh memory would cost as much as reading. Raises what the stream raises.
    """
    if isinstance(stream, io.BufferedIOBase | io.RawIOBase):
        with memoryview(data) as view, view[at : at + size] as free:
            return stream.readinto(free) or 0
    chunk = stream.read(size)
    data[at : at + len(chunk)] = chunk
    return len(chunk)


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
    data = _buffer(READ)
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
    return _cut(data, at, base, end, read=READ, last=at + READ >= size)


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
    block = Block(data, start=start, stop=max(stop, start), end=end, known=known, base=base)
    block.release = functools.partial(_FREE[len(data)].append, data)
    return block


def _boundary(data: bytearray, at: int, end: int) -> int:
    """Return where the first line begins at or behind a place; a long line is cut there."""
    if at == 0 or at >= end:
        return min(at, end)
    newline = data.find(b"\n", at - 1, min(end, at + CUT))
    return newline + 1 if newline >= 0 else at

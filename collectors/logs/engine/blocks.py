"""A log in blocks: whole lines, with some text before and behind them to look at.

Reading into memory instead of mapping the file costs a tenth more time and lives through what
logs do: they are rotated, truncated and still being written while they are read. (A mapped
file that shrinks ends the process with SIGBUS.)
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from whyhang.collectors.files.pieces import read_into

READ = 4 << 20  # bytes of a block
PIECE = 128 << 10  # bytes read at once
BEHIND = 64 << 10  # bytes kept before the lines of a block
AHEAD = 256 << 10  # bytes seen behind them
LONGEST = 16 << 10  # bytes of a line that are looked at
OVERLAP = 8 << 10  # of two blocks within one endless line
NEWLINE = 0x0A
ESCAPE = b"\x1b"
COLOUR = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")


Progress = Callable[[int], None]
"""Is called with numbers of bytes that were read."""


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
        self.release: Callable[[], None] = _nothing
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
        start, end = self.bounds(offset)
        start = self.data.rfind(b"\r", start, offset) + 1 or start
        ending = self.data.find(b"\r", offset, end)
        end = ending if ending >= 0 else end
        if end - start > longest:
            start = max(start, offset - longest // 4)
            end = min(end, start + longest)
        return start, end

    def bounds(self, offset: int) -> tuple[int, int]:
        """Return the start and end of the line that holds the byte at ``offset``."""
        end = self.data.find(b"\n", offset, self.end)
        return self.data.rfind(b"\n", 0, offset) + 1, end if end >= 0 else self.end


def _nothing() -> None:
    """Release nothing."""


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
    buffers = Buffers.of(BEHIND + AHEAD + 2 * read + OVERLAP + 1)
    data = buffers.take()
    start = known = base = end = 0
    more = True
    failure: Exception | None = None
    while more or start < end:
        if more:
            try:
                got = _read(stream, data, end, read)
            except Exception as error:  # noqa: BLE001 - any decompressor's; raised again below
                got, failure = 0, error
            more = got > 0
            end += got
            data[end] = NEWLINE
            on_bytes(got)
        stop = _stop(data, start, end, more=more, read=read)
        if stop <= start:
            continue
        block = Block(data, start=start, stop=stop, end=end, known=known, base=base)
        block.release = buffers.giver(data)
        following = buffers.take()
        known = stop
        start = stop if not more or data[stop - 1] == NEWLINE else max(start, stop - OVERLAP)
        gone = max(0, start - BEHIND)
        with memoryview(following) as target, memoryview(data) as rest:
            target[: end - gone] = rest[gone:end]
        yield block
        data = following
        start, known, base, end = start - gone, known - gone, base + gone, end - gone
    if failure is not None:
        raise failure


def _read(stream: BinaryIO, data: bytearray, at: int, size: int) -> int:
    """Read up to ``size`` bytes into ``data`` from ``at`` on, and give how many there were.

    Small reads, since what a decompressor has when it fails is lost with the read.
    """
    got = 0
    while got < size:
        try:
            more = read_into(stream, data, at + got, min(PIECE, size - got))
        except Exception:
            if got:
                break  # it will fail again
            raise
        if not more:
            break
        got += more
    return got


def _stop(data: bytearray, start: int, end: int, *, more: bool, read: int) -> int:
    """Choose where a block ends: at a line break with enough text behind it."""
    if not more:
        return end
    latest = end - AHEAD
    if latest <= start:
        return start
    stop = data.rfind(b"\n", start, latest) + 1
    if stop > start or latest - start < max(read, 2 * OVERLAP):
        return stop
    return latest  # a line without end is cut


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

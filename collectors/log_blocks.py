"""A log in blocks: whole lines, with some text before and behind them to look at.

Reading into a buffer instead of mapping the file costs a tenth more time and lives through what
logs do: they are rotated, truncated and still being written while they are read. (A mapped
file that shrinks ends the process with SIGBUS.)
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

READ = 2 << 20  # bytes at once: stays in the processor's cache
BEHIND = 64 << 10  # bytes kept before the lines of a block
AHEAD = 256 << 10  # bytes seen behind them
OVERLAP = 8 << 10  # of two blocks within one endless line
NEWLINE = 0x0A
COLOUR = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Block:
    """Lines ``data[start:stop]`` that begin at byte ``base + start`` of the file.

    What stands before ``start`` and behind ``stop`` belongs to other blocks, and is there to
    be looked at. Within a line too long for one block, blocks overlap: what ends at or before
    ``known`` was in the block before.
    """

    def __init__(
        self, data: bytearray, *, start: int, stop: int, known: int, base: int, line: int
    ) -> None:
        self.data = data
        self.start = start
        self.stop = stop
        self.known = known
        self.base = base
        self._counted = start
        self._line = line

    def line_at(self, offset: int) -> int:
        """Give the 1-based number of the line at an offset; cheap if the offsets rise."""
        if offset < self._counted:
            return self._line - self.data.count(b"\n", offset, self._counted)
        self._line += self.data.count(b"\n", self._counted, offset)
        self._counted = offset
        return self._line

    def file_offset(self, offset: int) -> int:
        """Give the place in the file of a place in the block."""
        return self.base + offset

    def segment(self, offset: int, longest: int) -> tuple[int, int]:
        r"""Give the start and end of what a person sees as a line around the byte at ``offset``.

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
        """Give the start and end of the line that holds the byte at ``offset``."""
        end = self.data.find(b"\n", offset)
        return self.data.rfind(b"\n", 0, offset) + 1, end if end >= 0 else len(self.data)


def blocks(
    stream: BinaryIO, *, read: int = READ, told: Callable[[int], None] = lambda _: None
) -> Iterator[Block]:
    """Cut a stream into blocks; ``told`` hears of every number of bytes read.

    A block is only valid until the next one is asked for. Raises what the stream raises, after
    the blocks that came before have been given.
    """
    data = bytearray()
    start = known = base = 0
    line = 1
    more = True
    failure: Exception | None = None
    while more or start < len(data):
        if more:
            try:
                chunk = stream.read(read)
            except Exception as error:  # noqa: BLE001 - any decompressor's; raised again below
                chunk, failure = b"", error
            more = bool(chunk)
            told(len(chunk))
            data += chunk
        stop = _stop(data, start, more=more, read=read)
        if stop <= start:
            continue
        block = Block(data, start=start, stop=stop, known=known, base=base, line=line)
        yield block
        line = block.line_at(stop)
        known = stop
        start = stop if not more or data[stop - 1] == NEWLINE else max(start, stop - OVERLAP)
        gone = max(0, start - BEHIND)
        del data[:gone]
        start, known, base = start - gone, known - gone, base + gone
    if failure is not None:
        raise failure


def _stop(data: bytearray, start: int, *, more: bool, read: int) -> int:
    """Choose where a block ends: at a line break with enough text behind it."""
    if not more:
        return len(data)
    latest = len(data) - AHEAD
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
        for found in COLOUR.finditer(block.data):
            removed += found.end() - found.start()
            cuts.append((found.end() - removed, removed))
        self._cuts = cuts
        super().__init__(
            bytearray(COLOUR.sub(b"", block.data)),
            start=len(COLOUR.sub(b"", block.data[: block.start])),
            stop=len(COLOUR.sub(b"", block.data[: block.stop])),
            known=len(COLOUR.sub(b"", block.data[: block.known])),
            base=block.base,
            line=block.line_at(block.start),
        )

    def file_offset(self, offset: int) -> int:
        """Give the place in the file of a place in the block."""
        at = bisect.bisect_right(self._cuts, (offset, len(self.data) << 1)) - 1
        return self.base + offset + (self._cuts[at][1] if at >= 0 else 0)

"""A part of a log: whole lines, with some text before and behind them to look at."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable

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

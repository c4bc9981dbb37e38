"""Who speaks in a line, told cheaply from its beginning: for choosing among very many lines.

``line.py`` knows who it really is; here it is enough that lines of two processes differ, and
that those of one mostly do not.
"""

from __future__ import annotations

import re

from whyhang.collectors.logs.engine.block import Block

REACH = 400  # bytes before a place in which its line begins
BEGINNING = 96  # bytes of a line in which the speaker is named
WORDS = 2  # that name the speaker

_TIME = re.compile(rb"\d\d:\d\d:\d\d|\d{4}[-/]\d\d[-/]\d\d|^[\d.,]+s?$")


def speaker(data: bytes | bytearray, at: int) -> bytes:
    """Return the first words of the line around a place, but for dates and times."""
    start = data.rfind(b"\n", max(0, at - REACH), at) + 1 or max(0, at - REACH)
    words = bytes(data[start : max(at, start + BEGINNING)][:BEGINNING]).split(None, WORDS + 3)
    return b" ".join([word for word in words if not _TIME.search(word)][:WORDS])


def last_of_each(block: Block, word: bytes, most: int) -> tuple[list[int], int]:
    """Return where the last line of each speaker that holds a word has it, and how many were seen.

    At most ``most`` places are looked at, half of them from each end of the block.
    """
    places = _at_both_ends(block.data, word, block.start, block.stop, most)
    last = {speaker(block.data, at): at for at in places}
    return sorted(last.values()), len(places)


def _at_both_ends(
    data: bytes | bytearray, word: bytes, start: int, stop: int, most: int
) -> list[int]:
    """Return the first and the last places of a word, up to half of ``most`` each, in order."""
    first: list[int] = []
    at = start - 1
    while len(first) < most - most // 2 and (at := data.find(word, at + 1, stop)) >= 0:
        first.append(at)
    behind: list[int] = []
    while at >= 0 and len(behind) < most // 2 and (stop := data.rfind(word, at + 1, stop)) >= 0:
        behind.append(stop)
    return first + behind[::-1]

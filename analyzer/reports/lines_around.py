"""The lines around each line that is cited, read once more from where it was read.

What a log says just before and after its decisive line is what a person scrolls to first.
"""

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from whyhang.analyzer.facts import replace
from whyhang.analyzer.redact import BLANK, redact
from whyhang.analyzer.report import LinesAround, Report

AROUND = 4
"""Lines before and after."""

MOST = 64
"""Places that are looked up."""

MAX_WIDTH = 300
LONGEST = 1 << 14  # bytes of a line that are read
MAX_BYTES = 256 << 20  # of all files together: a place far into a huge log is not looked up
BLOCK = 1 << 20

# Lines of a private key, whose first line may stand above what is shown.
_KEY = re.compile(r"[A-Za-z0-9+/=]{60,}")
_END_OF_KEY = re.compile(r"[A-Za-z0-9+/=]+")

Open = Callable[[str], BinaryIO | None]
"""Opens a file by the path under which evidence cites it; None where it is not at hand."""


def with_lines_around(report: Report, opened: Open) -> Report:
    """Add the lines around what the findings and the story cite, as far as files are at hand."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for source, line in list(dict.fromkeys(_cited(report)))[:MOST]:
        wanted[source].add(line)
    left = MAX_BYTES
    pieces: list[LinesAround] = []
    for source, lines in wanted.items():
        # Whatever a decompressor raises: the quote is shown alone.
        with contextlib.suppress(Exception):
            stream = opened(source)
            if stream is None:
                continue
            with stream:
                text_lines = _Lines(stream, left)
                pieces += (
                    LinesAround(source=source, line=line, first=first, lines=text)
                    for line, first, text in text_lines.around(sorted(lines))
                )
            left = max(0, left - text_lines.read)
    return replace(report, lines_around=tuple(pieces))


def _cited(report: Report) -> Iterator[tuple[str, int]]:
    for finding in report.findings:
        for piece in finding.evidence:
            if piece.line is not None:
                yield piece.source, piece.line
    for event in report.story:
        if event.line is not None:
            yield event.source, event.line


class _Lines:
    """Reads the lines of a file from its beginning, ``limit`` bytes at most."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self.stream = stream
        self.limit = limit
        self.read = 0
        self.number = 1  # of the line that is read next

    def around(self, wanted: Iterable[int]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Yield each wanted line, in order, with the first of the lines around it and those."""
        kept: dict[int, str] = {}
        for line in wanted:
            first = max(1, line - AROUND)
            if self.number < first and not self._skip_to(first):
                return
            while self.number <= line + AROUND:
                raw = self.stream.readline(LONGEST)
                if not raw or b"\0" in raw:
                    break
                self.read += len(raw)
                kept[self.number] = _text(raw)
                if len(raw) == LONGEST and not raw.endswith(b"\n"):
                    self._skip_to(self.number + 1)
                else:
                    self.number += 1
            if line in kept:
                numbers = [n for n in range(first, line + AROUND + 1) if n in kept]
                yield line, first, tuple(_without_keys(kept[number] for number in numbers))

    def _skip_to(self, number: int) -> bool:
        """Go to the beginning of a line; return whether there is one, within the limit."""
        while self.number < number:
            block = self.stream.read(BLOCK)
            self.read += len(block)
            if not block or self.read > self.limit:
                return False
            count = block.count(b"\n")
            if self.number + count < number:
                self.number += count
                continue
            stop = 0
            for _ in range(number - self.number):
                stop = block.index(b"\n", stop) + 1
            self.stream.seek(stop - len(block), 1)
            self.number = number
        return True


def _text(raw: bytes) -> str:
    text = redact(raw.decode("utf-8", "replace").rstrip("\r\n"))  # half a secret looks like none
    return text if len(text) <= MAX_WIDTH else f"{text[:MAX_WIDTH]} …"


def _without_keys(lines: Iterable[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        whole = _KEY.fullmatch(line.strip()) is not None
        last = inside and _END_OF_KEY.fullmatch(line.strip()) is not None
        yield BLANK if whole or last else line
        inside = whole

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

AROUND = 4  # lines before and after
MOST = 64  # places that are looked up
MAX_WIDTH = 300
LONGEST = 1 << 14  # bytes of a line that are read
MAX_BYTES = 256 << 20  # of all files together: a place far into a huge log is not looked up

# Lines of a private key, whose first line may stand above what is shown.
_KEY = re.compile(r"[A-Za-z0-9+/=]{60,}")
_END_OF_KEY = re.compile(r"[A-Za-z0-9+/=]+")

Open = Callable[[str], BinaryIO | None]
"""Opens a file by the path under which evidence cites it; None where it is not at hand."""


def with_lines_around(report: Report, opened: Open) -> Report:
    """Add the lines around what the findings and the story cite, as far as files are at hand."""
    cited = [(piece.source, piece.line) for f in report.findings for piece in f.evidence]
    cited += [(event.source, event.line) for event in report.story]
    known = ((source, line) for source, line in cited if line is not None)
    wanted: dict[str, set[int]] = defaultdict(set)
    for source, line in list(dict.fromkeys(known))[:MOST]:
        wanted[source].add(line)
    left = MAX_BYTES
    around: list[LinesAround] = []
    for source, lines in wanted.items():
        with contextlib.suppress(Exception):  # the quote is shown alone
            stream = opened(source)
            if stream is None:
                continue
            with stream:
                kept, read = _lines_near(stream, lines, left)
            left = max(0, left - read)
            for line in sorted(lines & kept.keys()):
                shown = [n for n in range(line - AROUND, line + AROUND + 1) if n in kept]
                text = tuple(_without_keys(kept[n] for n in shown))
                around.append(LinesAround(source=source, line=line, first=shown[0], lines=text))
    return replace(report, lines_around=tuple(around))


def _lines_near(stream: BinaryIO, wanted: Iterable[int], limit: int) -> tuple[dict[int, str], int]:
    """Return the lines near those that are wanted, by number, and how many bytes were read."""
    near = {number for line in wanted for number in range(line - AROUND, line + AROUND + 1)}
    kept: dict[int, str] = {}
    read, last = 0, max(near)
    with contextlib.suppress(Exception):  # of a decompressor: what came before is shown
        for number in range(1, last + 1):
            raw = rest = stream.readline(LONGEST)
            while len(rest) == LONGEST and not rest.endswith(b"\n"):
                rest = stream.readline(LONGEST)
                read += len(rest)
            read += len(raw)
            if not raw or b"\0" in raw or read > limit:
                break
            if number in near:
                kept[number] = _text(raw)
    return kept, read


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

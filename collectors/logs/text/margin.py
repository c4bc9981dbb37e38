"""The margin of a pasted log: what some tool wrote in front of every line of it.

Quote marks of an e-mail or an issue, a notebook's or a pager's line numbers, ``grep -n``, the name
of a stream, a logger's header around somebody else's output, a block that is indented as a whole.
Behind a margin a traceback no longer begins where it should, and a line number looks like a rank.
A margin counts only if all lines of the sample have it.
"""

import itertools
import re
from collections.abc import Sequence

from whyhang.analyzer.facts import Record
from whyhang.collectors.logs.text.prefix import split_prefix

SAMPLE = 200  # lines
LEAST = 3  # lines, fewer prove nothing
LEAST_NUMBERED = 5  # lines that begin as those of ``srun -l`` and ``mpiexec -l`` do
MOST = 0.95  # of the lines have it; some are cut
DEPTH = 3  # margins in front of each other

_CLOCK = r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]?"
_LEVEL = r"\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\]?"
_FIXED = tuple(
    re.compile(shape)
    for shape in (
        r"(?:> ?)+",
        r"(?:std(?:err|out)|STD(?:ERR|OUT)) ?[:|] ",
        r" *\d+(?:\.\d+)?s[ \t]+\d+(?:\t| (?! ))",  # notebook servers: seconds and line number
        _CLOCK + r" +(?:[-|:] +)?(?:\[?[\w.]{1,40}\]? +[-|:] +)?" + _LEVEL + r"(?: +[-|:]|:)? ",
        _CLOCK + r" ",
    )
)
_COUNTERS = tuple(
    re.compile(shape)
    for shape in (
        r" *(\d+)(?:\t| *[|│] ?)",  # cat -n, a pager
        r"(\d+)[:-](?! )",  # grep -n
        r"(?:L|[Ll]ine )(\d+): ?",
        r"\[(\d+)\] ?",
        r" *(\d+): ?",
    )
)
_HOST = re.compile(r"(?P<host>[a-z][a-z-]*-\d[\w.-]*): ")
_INDENT = re.compile(r"[ \t]+")


class Margin(Record):
    """What to take off the front of each line, in this order."""

    shapes: tuple[str, ...] = ()

    def end(self, line: str) -> int:
        """Return where a line goes on behind its margin."""
        at = 0
        for shape in self.shapes:
            match = re.compile(shape).match(line, at)  # ``re`` keeps what it has compiled
            if match is None:
                return at
            at = match.end()
        return at


NO_MARGIN = Margin()


def margin_of(lines: Sequence[str]) -> Margin:
    """Return the margin that all lines have."""
    rest = [line.rstrip("\r\n") for line in lines if line.strip()][:SAMPLE]
    shapes: list[str] = []
    while len(shapes) < DEPTH:
        shape = _shape(rest)
        if shape is None:
            break
        shapes.append(shape)
        compiled = re.compile(shape)
        rest = [line[match.end() :] for line in rest if (match := compiled.match(line))]
        rest = [line for line in rest if line.strip()]
    return Margin(shapes=tuple(shapes)) if shapes else NO_MARGIN


def _shape(lines: Sequence[str]) -> str | None:
    for shape in _FIXED if len(lines) > 1 else ():
        if _all(shape, lines):
            return shape.pattern
    if len(lines) < LEAST:
        return None
    for shape in _COUNTERS:
        if _counts(shape, lines):
            return shape.pattern
    if _all(_HOST, lines) and not any(split_prefix(line)[0].host for line in lines[:LEAST]):
        return _HOST.pattern
    width = min((match.end() if (match := _INDENT.match(line)) else 0) for line in lines)
    return rf"[ \t]{{{width}}}" if width > 1 else None


def _all(shape: re.Pattern[str], lines: Sequence[str]) -> bool:
    spare = len(lines) - MOST * len(lines)
    for line in lines:
        if not (shape.match(line) or shape.match(line + " ")):
            spare -= 1
            if spare < 0:
                return False
    return True


def _counts(shape: re.Pattern[str], lines: Sequence[str]) -> bool:
    """Return whether a number counts lines: it grows from each to the next, as no rank does."""
    numbers: list[int] = []
    for line in lines:
        match = shape.match(line) or shape.match(line + " ")
        if match is None:
            return False
        numbers.append(int(match[1]))
    least = LEAST_NUMBERED if shape in _COUNTERS[-2:] else LEAST
    if len(numbers) < least or numbers[0] == 0:
        return False
    return all(a < b for a, b in itertools.pairwise(numbers))

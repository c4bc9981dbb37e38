"""What happened to a log on its way into a paste: margins, broken lines, quotes.

*Margins* are what some tool wrote in front of every line: quote marks of an e-mail or an issue, a
notebook's or a pager's line numbers, ``grep -n``, the name of a stream, a logger's header around
somebody else's output, a block that is indented as a whole. Behind one a traceback no longer begins
where it should, and a line number looks like a rank. It counts only if all lines of the sample have
it.

*Broken lines*: who copies a log out of a terminal, tmux or a notebook gets each long line in pieces
of one width, cut in the middle of words, so that no pattern finds what stands across the edge. They
are joined only where several lines of one length end within a word that the next line goes on with.
Empty lines stand for those that were joined to the one before, so that the others keep their
numbers. For what was broken between two words see ``broken.py``.

*Quotes*: words about a log are no log. Who writes a README or answers in a chat puts a message
between backticks, in the middle of their own words. Programs hardly ever do. A line between
backticks with next to nothing around it, and one in a block of its own, may well be pasted, and
counts. So does what follows the words of somebody who reports what they saw ("I get the following
error: ...").
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence

from whyhang.analyzer.facts import Record
from whyhang.collectors import tables
from whyhang.collectors.logs.text.prefix import split_prefix

SAMPLE = 200  # lines
LEAST = 3  # lines, fewer prove nothing
LEAST_NUMBERED = 5  # lines that begin as those of ``srun -l`` and ``mpiexec -l`` do
MOST = 0.95  # of the lines have it; some are cut
DEPTH = 3  # margins in front of each other


class _Pasted(Record):
    time: re.Pattern[str]
    fixed: tuple[re.Pattern[str], ...]
    counters: tuple[re.Pattern[str], ...]
    host: re.Pattern[str]
    indent: re.Pattern[str]
    cut_word: re.Pattern[bytes]
    begins: re.Pattern[bytes]
    ticks: re.Pattern[str]
    reports: re.Pattern[str]
    supposed: re.Pattern[str]
    word: re.Pattern[str]


_PASTED = tables.patterns(__package__, "pasted.toml", _Pasted)


NO_MARGIN = re.compile("")


def has_clock(margin: re.Pattern[str]) -> bool:
    """Return whether a margin has the time of each line."""
    return _PASTED.time.pattern in margin.pattern


def margin_of(lines: Sequence[str]) -> re.Pattern[str]:
    """Return what matches the margin that all lines have, at the beginning of any line."""
    rest = [line.rstrip("\r\n") for line in lines if line.strip()][:SAMPLE]
    shapes: list[str] = []
    while len(shapes) < DEPTH and (shape := _shape(rest)) is not None:
        shapes.append(shape)
        compiled = re.compile(shape)
        rest = [line[match.end() :] for line in rest if (match := compiled.match(line))]
        rest = [line for line in rest if line.strip()]
    margin = ""
    for shape in reversed(shapes):  # a line that was cut has the outer ones only
        margin = f"(?:{shape}{margin})?"
    return re.compile(margin) if shapes else NO_MARGIN


def _shape(lines: Sequence[str]) -> str | None:
    for shape in _PASTED.fixed if len(lines) > 1 else ():
        if _all(shape, lines):
            return shape.pattern
    if len(lines) < LEAST:
        return None
    for shape in _PASTED.counters:
        if _counts(shape, lines):
            return shape.pattern
    if _all(_PASTED.host, lines) and not any(split_prefix(line)[0].host for line in lines[:LEAST]):
        return _PASTED.host.pattern
    width = min((match.end() if (match := _PASTED.indent.match(line)) else 0) for line in lines)
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
    least = LEAST_NUMBERED if shape in _PASTED.counters[-2:] else LEAST
    if len(numbers) < least or numbers[0] == 0:
        return False
    return all(a < b for a, b in itertools.pairwise(numbers))


LEAST_WIDTH = 60  # columns of a terminal
LEAST_FULL = 3  # lines that reach the edge, fewer prove nothing
LEAST_CUT = 2  # of them end within a word
MOST_BEYOND = 0.05  # of the lines are longer: somebody's own words around the text
SAME = 4  # bytes at the start of two lines that are of one kind, and no parts of one


def rejoin(data: bytes) -> bytes:
    """Join what a terminal broke; a text that none broke is given back as it is."""
    if _PASTED.cut_word.search(data) is None:
        return data
    lines = data.split(b"\n")
    beyond = 0
    for width, times in sorted(Counter(map(len, lines)).items(), reverse=True):
        if width < LEAST_WIDTH or beyond > MOST_BEYOND * len(lines):
            break
        if times >= LEAST_FULL and _is_edge(lines, width):
            return _joined(lines, width)
        beyond += times
    return data


def _is_edge(lines: list[bytes], width: int) -> bool:
    full = [n for n, line in enumerate(lines[:-1]) if len(line) == width]
    goes_on = [n for n in full if _goes_on(lines[n], lines[n + 1])]
    cut = [n for n in goes_on if _PASTED.cut_word.match(lines[n][-1:] + b"\n" + lines[n + 1][:1])]
    return len(cut) >= LEAST_CUT and 2 * len(goes_on) >= len(full)


def _goes_on(line: bytes, after: bytes) -> bool:
    if line.endswith(b"  ") or _PASTED.begins.match(after) is not None:
        return False
    return line[:SAME] != after[:SAME]


def _joined(lines: list[bytes], width: int) -> bytes:
    whole: list[bytes] = []
    at = 0
    while at < len(lines):
        first = at
        while at + 1 < len(lines) and len(lines[at]) == width and _goes_on(*lines[at : at + 2]):
            at += 1
        whole.append(b"".join(lines[first : at + 1]))
        whole += [b""] * (at - first)
        at += 1
    return b"\n".join(whole)


LEAST_WORDS = 3


def is_quoted(text: str, at: int) -> bool:
    """Return whether what was found at ``at`` stands between backticks in a sentence."""
    ticks = list(_PASTED.ticks.finditer(text)) if "`" in text[:at] else []
    before = [tick for tick in ticks if tick.end() <= at]
    after = [tick for tick in ticks if tick.start() >= at]
    if len(before) % 2 == 0 or not after:
        return False
    start = before[-1].start()
    if _PASTED.reports.search(text, 0, start) and not _PASTED.supposed.search(text, 0, start):
        return False
    around = f"{text[: before[-1].start()]} {text[after[0].end() :]}"
    return len(_PASTED.word.findall(around)) >= LEAST_WORDS

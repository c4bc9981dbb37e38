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

from whyhang.collectors.logs.text.prefix import split_prefix

SAMPLE = 200  # lines
LEAST = 3  # lines, fewer prove nothing
LEAST_NUMBERED = 5  # lines that begin as those of ``srun -l`` and ``mpiexec -l`` do
MOST = 0.95  # of the lines have it; some are cut
DEPTH = 3  # margins in front of each other

_TIME = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?"
_CLOCK = rf"(?:\[{_TIME}\]|{_TIME})"  # a label may stand behind it in the same brackets
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
_HOST = re.compile(r"[a-z][a-z-]*-\d[\w.-]*: ")
_INDENT = re.compile(r"[ \t]+")


NO_MARGIN = re.compile("")


def has_clock(margin: re.Pattern[str]) -> bool:
    """Return whether a margin has the time of each line."""
    return _TIME in margin.pattern


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


LEAST_WIDTH = 60  # columns of a terminal
LEAST_FULL = 3  # lines that reach the edge, fewer prove nothing
LEAST_CUT = 2  # of them end within a word
MOST_BEYOND = 0.05  # of the lines are longer: somebody's own words around the text
SAME = 4  # bytes at the start of two lines that are of one kind, and no parts of one
_CUT_WORD = re.compile(rb"[a-z_]\n[a-z_]")
_BEGINS = re.compile(
    rb"\s\s|\t|[\[{>|#*=]|Traceback|frame #|[A-Z]\w*(?:Error|Exception|Warning)\b|\d{4}-\d\d"
    rb"|[IWEF]\d{4} |(?:INFO|WARN|WARNING|ERROR|DEBUG)\b|[\w.-]+:\d+:\d+ |srun|slurmstepd|\n|$"
)
"""How a line begins that goes on with none before it."""


def rejoin(data: bytes) -> bytes:
    """Join what a terminal broke; a text that none broke is given back as it is."""
    if _CUT_WORD.search(data) is None:
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
    cut = [n for n in goes_on if _CUT_WORD.match(lines[n][-1:] + b"\n" + lines[n + 1][:1])]
    return len(cut) >= LEAST_CUT and 2 * len(goes_on) >= len(full)


def _goes_on(line: bytes, after: bytes) -> bool:
    if line.endswith(b"  ") or _BEGINS.match(after) is not None:
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
_TICKS = re.compile(r"`+")
_REPORTS = re.compile(
    r"(?i)\b(?:I|we)(?:'ve| have| am| was| were|'m)? (?:\w+ )?"
    r"(?:g[eo]t|getting|see|saw|seeing|(?:receiv|encounter|fac)(?:e|ed|ing)?|hit|met)\b"
    r"[^.;`]*[:\s]$"
    r"|\b(?:printed|reported|raised|threw|logged|(?:fail|di|crash|exit)ed with)\b[^.;`]{0,20}$"
    r"|\b(?:logs?|output|stderr) (?:of [\w ]{1,20} )?(?:says?|said|shows?|showed|has|had)\b"
    r"[^.;`]{0,20}$"
    r"|(?:报错|然后报|报出|出现|打印了|崩溃|退出)[^。`]{0,10}$"
)
_SUPPOSED = re.compile(r"(?i)\bif\b")
_WORD = re.compile(r"\b[^\W\d_]{2,}\b")


def is_quoted(text: str, at: int) -> bool:
    """Return whether what was found at ``at`` stands between backticks in a sentence."""
    ticks = list(_TICKS.finditer(text)) if "`" in text[:at] else []
    before = [tick for tick in ticks if tick.end() <= at]
    after = [tick for tick in ticks if tick.start() >= at]
    if len(before) % 2 == 0 or not after:
        return False
    start = before[-1].start()
    if _REPORTS.search(text, 0, start) and not _SUPPOSED.search(text, 0, start):
        return False
    around = f"{text[: before[-1].start()]} {text[after[0].end() :]}"
    return len(_WORD.findall(around)) >= LEAST_WORDS

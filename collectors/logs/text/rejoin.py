"""Lines that a terminal broke at its right edge, made whole again.

Who copies a log out of a terminal, tmux or a notebook gets each long line in pieces of one width,
cut in the middle of words, so that no pattern finds what stands across the edge. The pieces are
joined only where several lines of one length end within a word that the next line goes on with.
Empty lines stand for those that were joined to the one before, so that the others keep their
numbers. Who writes of a watchdog's line breaks it by hand, and indents what follows.
"""

import re
from collections import Counter

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

_BY_HAND = re.compile(
    rb"^[^\n]*(?:Watchdog|operation timeout:|WorkNCCL\([^)\n]*|WorkNCCL\([^\n]*\))[ \t]*"
    rb"(?:\n[ \t]+(?:caught collective|WorkNCCL\(|[\w()]+=|ran for \d)[^\n]*){1,4}",
    re.MULTILINE,
)
"""A watchdog's line, and up to four with the rest of its values."""


def rejoin(data: bytes) -> bytes:
    """Join what a terminal or somebody broke; a text that none broke is given back as it is."""
    if b"WorkNCCL(" in data:
        data = _BY_HAND.sub(_in_one_line, data)
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


def _in_one_line(broken: re.Match[bytes]) -> bytes:
    lines = broken[0].split(b"\n")
    return b" ".join(map(bytes.strip, lines)) + b"\n" * (len(lines) - 1)


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

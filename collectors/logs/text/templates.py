"""Templates: what a line has in common with others that the same statement printed.

Numbers, times, addresses, hashes and paths are out; they are kept beside as the line's values, for
some of them count. Programs nobody has seen before can so be compared with themselves.
"""

import re
from collections import Counter
from collections.abc import Sequence

LONGEST = 200  # characters of a line that are compared

TIME = re.compile(
    r"(?<=%)\|[\u2588-\u258f#\d ]{1,200}\|(?= *\d)"  # the bar of tqdm, as long as time has gone
    r"|\b\d{4}[-/]\d\d[-/]\d\d(?:[T ]|\b)|\b\d\d/\d\d/\d{2,4}\b|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?Z?"
)
_VALUE = re.compile(
    r"0[xX][0-9a-fA-F]+"
    r"|(?<![\w.])(?=[a-f]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,}){0,4}(?!\w)"
    r"|(?<![\w/])\w{1,10}://[^\s'\"]+"
    r"|(?<![\w/.])\.{0,2}/[\w.@=+-]+(?:/[\w.@=+-]*)*"
    r"|\d+(?:[.,:]\d+)*(?:[eE][+-]?\d+)?"
)


def reduce(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the template of a line and the values that were in it."""
    text = TIME.sub("", text[:LONGEST])
    values = tuple(_VALUE.findall(text))
    return " ".join(_VALUE.sub("#", text).split()) if values else " ".join(text.split()), values


_LEVEL = re.compile(
    r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b|\b[VDIWEFC](?=#)"
)
LEAST = 3  # different lines; fewer prove nothing
MOST = 0.8  # of them have it


def header(texts: Sequence[str]) -> int:
    """Return how many words a logger puts in front of every line, whatever the line says."""
    masked = {tuple(_masked(text)) for text in texts}
    front: list[str] = []
    while len(masked) >= LEAST:
        firsts = Counter(words[len(front)] for words in masked if len(words) > len(front))
        word, count = max(firsts.items(), key=lambda item: item[1], default=("", 0))
        if count < MOST * len(masked):
            break
        front.append(word)
    return len(front) if any(letter.isalpha() for word in front for letter in word) else 0


def behind(text: str, words: int) -> str:
    """Return a line without its first words."""
    parts = text.split(None, words)
    return parts[-1] if words and len(parts) > words else text


def _masked(text: str) -> list[str]:
    words = text[:LONGEST].split()
    return [_LEVEL.sub("%", re.sub(r"\d[\d.,:]*", "#", word)) for word in words]

"""The header that a program's logger writes in front of its messages: when, how bad, from where.

Formats of Python's ``logging`` as programs configure it, loguru, Hydra, glog and absl. Only what
is told from a message for sure is a header: times, levels, places in source files, and names
where a separator or brackets set them off. A name that stands bare ("INFO trainer step 3") is one
where all messages of a file begin with it (``voice.py``).

A *template* is what a line has in common with others that the same statement printed. Numbers,
times, addresses, hashes and paths are out; they are kept beside as the line's values, for some of
them count. Programs nobody has seen before can so be compared with themselves.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter

from whyhang.analyzer.facts import Record
from whyhang.collectors import limits, tables

LEAST = 3  # lines with a header
MOST = 0.8  # of them have a bare name, the same


class _Shapes(Record):
    header: limits.Pattern[str]
    tells: limits.Pattern[str]
    of_level: re.Pattern[str]
    of_place: re.Pattern[str]
    bare: re.Pattern[str]
    number: re.Pattern[str]
    rank: re.Pattern[str]
    time: re.Pattern[str]
    value: re.Pattern[str]
    any_level: re.Pattern[str]


SHAPES = tables.patterns(__package__, "logger_header.toml", _Shapes)

MOST_ITEMS = 8


def header_end(text: str, name: str = "", *, timed: bool = False) -> int:
    """Return where the message of a line begins: 0 if no logger's header is in front of it.

    ``name``: that of the logger, where it stands bare behind the header. ``timed``: its time was
    taken off before.
    """
    at = 0
    for _ in range(MOST_ITEMS):
        item = SHAPES.header.match(text, at)
        if item is None or item.end() == at:
            break
        at = item.end()
    if at == 0 or not (timed or SHAPES.tells.search(text, 0, at)):
        return 0
    return at + len(name) + 1 if name and text.startswith(f"{name} ", at) else at


def bare_name(lines: Iterable[str]) -> str:
    """Return the name that stands bare behind the headers of nearly all lines that have one.

    What differs behind it, or speaks of a rank, is the message; one word in front of numbers is
    its beginning, and so is one behind the place in the program that a header ends with.
    """
    logged = [(line, end) for line in lines if (end := header_end(line))]
    leveled = [(line, end) for line, end in logged if SHAPES.of_level.search(line, 0, end)]
    messages = [line[end:] for line, end in leveled]
    placed = all(SHAPES.of_place.search(line, 0, end) for line, end in leveled)
    named = [match for text in messages if (match := SHAPES.bare.match(text))]
    name, count = max(Counter(m["name"] for m in named).items(), key=itemgetter(1), default=("", 0))
    follow = {SHAPES.number.sub("#", match["next"]) for match in named if match["name"] == name}
    of_ranks = not placed and all(SHAPES.rank.match(word) for word in follow)
    differ = len(follow) > 1 or of_ranks
    return name if count >= max(LEAST, MOST * len(messages)) and differ else ""


LONGEST = 200  # characters of a line that are compared


def reduce(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the template of a line and the values that were in it."""
    text = SHAPES.time.sub("", text[:LONGEST])
    values = tuple(SHAPES.value.findall(text))
    return " ".join(SHAPES.value.sub("#", text).split()) if values else " ".join(
        text.split()
    ), values


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
    return [SHAPES.any_level.sub("%", re.sub(r"\d[\d.,:]*", "#", word)) for word in words]

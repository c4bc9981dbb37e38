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

from whyhang.collectors import limits

LEAST = 3  # lines with a header
MOST = 0.8  # of them have a bare name, the same

_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|SUCCESS|WARN(?:ING)?|ERROR|CRITICAL|FATAL|[VDIWEF]\d{4}(?= ))"
_DATE = r"(?:\d{4}[-/]\d\d[-/]\d\d|\d\d[-/]\d\d(?:[-/]\d{2,4})?)"
_TIME = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_WHEN = rf"(?:{_DATE}[T ]{{1,2}}|(?<![\w:])){_TIME}"
PLACE_IN_MESH = r"(?:ATTN_|MOE_)?[DTPEC]P\d+"
"""Whose a line is, within the brackets of the time, as SGLang has it."""
_PLACE = r"(?=[\d.]*[A-Za-z_<])[\w./<>-]{1,80}:(?:[\w<>]{1,40}:)?\d{1,6}"
_NAME = r"[A-Za-z_][\w./]{0,60}"
_NOT_RANK = r"(?!(?i:(?:global|local)?[ _]?(?:rank|process|gpu|cuda|worker))[ _=:#]?\d*\b)"
_HEADER = limits.compile(
    r"(?:"
    rf"(?:\[(?:{_WHEN}(?: {PLACE_IN_MESH})*|{_LEVEL})\]|{_WHEN}|{_LEVEL})(?=[\]\[ \t|:-]|$)"
    r"|\[(?=[^\]\[]{1,120}\.(?:py|cc|cpp|cu|h):\d+\])"  # [E1123 10:00:00.123 socket.cpp:12]
    rf"|\[{_LEVEL}\|(?:{_WHEN}|{_PLACE})\]"  # [INFO|trainer.py:31], of transformers
    rf"|\[{_NOT_RANK}(?:{_NAME}|{_PLACE})(?::\w{{1,60}})?\]"  # [trainer.loop], [train.py:31]
    rf"|\(?{_PLACE}\)?(?=\]|[ \t]?[-|:>]|[ \t]\[)\]?"  # train.py:31], __main__:main:42 -
    rf"|\d{{1,7}}(?=[ \t]{_PLACE})"  # glog's thread
    rf"|(?<=:){_NOT_RANK}{_NAME}(?=:)"  # INFO:root:
    rf"|{_NOT_RANK}{_NAME}(?=[ \t]{{1,8}}\[?{_LEVEL}\b)"  # trainer INFO
    # trainer -, but not r3:
    rf"|{_NOT_RANK}{_NAME}(?<![A-Za-z_]\d)(?<!\d\d)(?=[ \t]{{0,8}}(?:\||-[ \t]|:[ \t]|:\d+[ \t]))"
    r")(?:[ \t]{0,12}(?:[-|:>][ \t]{0,4}){0,2})"
)
_TELLS = limits.compile(rf"{_WHEN}|\b{_LEVEL}\b")
_OF_LEVEL = re.compile(rf"\b{_LEVEL}\b")
_BARE = re.compile(rf"(?P<name>{_NOT_RANK}[A-Za-z_][\w.]{{0,60}}) (?P<next>\S+)")
_NUMBER = re.compile(r"\d[\d.,:]*")
_RANK = re.compile(r"(?i)\W?(?:global[ _]?)?(?:rank|process|gpu)")
MOST_ITEMS = 8


def header_end(text: str, name: str = "", *, timed: bool = False) -> int:
    """Return where the message of a line begins: 0 if no logger's header is in front of it.

    ``name``: that of the logger, where it stands bare behind the header. ``timed``: its time was
    taken off before.
    """
    at = 0
    for _ in range(MOST_ITEMS):
        item = _HEADER.match(text, at)
        if item is None or item.end() == at:
            break
        at = item.end()
    if at == 0 or not (timed or _TELLS.search(text, 0, at)):
        return 0
    return at + len(name) + 1 if name and text.startswith(f"{name} ", at) else at


def bare_name(lines: Iterable[str]) -> str:
    """Return the name that stands bare behind the headers of nearly all lines that have one.

    What differs behind it, or speaks of a rank, is the message; one word in front of numbers is
    its beginning.
    """
    logged = [(line, end) for line in lines if (end := header_end(line))]
    messages = [line[end:] for line, end in logged if _OF_LEVEL.search(line, 0, end)]
    named = [match for text in messages if (match := _BARE.match(text))]
    name, count = max(Counter(m["name"] for m in named).items(), key=itemgetter(1), default=("", 0))
    follow = {_NUMBER.sub("#", match["next"]) for match in named if match["name"] == name}
    differ = len(follow) > 1 or all(_RANK.match(word) for word in follow)
    return name if count >= max(LEAST, MOST * len(messages)) and differ else ""


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


_ANY_LEVEL = re.compile(
    r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b|\b[VDIWEFC](?=#)"
)


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
    return [_ANY_LEVEL.sub("%", re.sub(r"\d[\d.,:]*", "#", word)) for word in words]

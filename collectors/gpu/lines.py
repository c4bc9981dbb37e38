"""The text that the readers of tables and lists go over: lines of one host, with their numbers.

A file may hold the output of several commands on several hosts. Whose a line is, is told by a
prefix in front of each (pdsh, clush, mpirun, kubectl: "node7: | 0 NVIDIA …"), by a line
before it (a shell prompt, "==== node7 ====", uname, "hostname: node7"), or by the file's name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator

from whyhang.analyzer.facts import Record, Source
from whyhang.analyzer.reading import Document
from whyhang.collectors.files import naming
from whyhang.collectors.gpu import values

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NAME = r"[A-Za-z][A-Za-z0-9]*(?:[-.][A-Za-z0-9]+)*"
_PREFIX = re.compile(
    rf"(?:\d+: |\[(?:\d+,)?\d+\]<std(?:out|err)>: ?)?(?P<host>{_NAME}\d[\w.-]*|{_NAME}): ?"
    r"(?=[|+#]|GPU |Unable to|\t|\s+(?:Link \d|GPU\d)|\s*\d+\s)"
)
_UNAME = re.compile(rf"Linux (?P<host>{_NAME}) \d+\.\d+\.\d+")
_PROMPT = re.compile(rf"\(?[\w.-]*\)? ?\[?[\w.-]+@(?P<host>{_NAME})(?:[:\s][^#$]*)?[#$] ")
_SAYS = re.compile(
    rf"[=#*\-\s>\[]*(?:host(?:name)?|node(?:name)?|machine)\s*[:=]\s*(?P<host>{_NAME})[\]=#*\-\s]*$",
    re.IGNORECASE,
)
_RULED = re.compile(
    r"(?P<rule>[=#*>-])(?P=rule)+\s*(?:on |from |node |host )?"
    rf"(?P<host>{_NAME})\s*(?:\|.*|:?\s*(?:[=#*<-]{{2,}})?)$"
)
_GPUSTAT = re.compile(
    rf"(?P<host>{_NAME})\s+[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} +\d+ [\d:]{{8}} \d{{4}}"
)
_CLUSH = re.compile(r"-{6,}$")
_TAIL = re.compile(r"==> (?P<path>\S+) <==$")
_NO_HOST = frozenset(
    {"nvidia", "nvidia-smi", "gpu", "gpus", "processes", "start", "end", "topology", "nvlink"}
    | {"dmesg", "output", "log", "stdout", "stderr", "env", "environment", "driver", "cuda"}
)


class Line(Record):
    """A line of a file, without what stands before and after it. Numbers count from 1."""

    number: int
    text: str


class Piece(Record):
    """Lines of one host, in the order of the file, and what is known of all of them."""

    document: Document
    host: str | None
    lines: tuple[Line, ...]
    taken_at: float | None = None

    def source(self, line: Line) -> Source:
        """Name a line."""
        return self.document.source(line.number)


class Counter:
    """Counts the samples of each thing within a document; a bundle counts them itself."""

    def __init__(self, document: Document) -> None:
        self._look = document.look
        self._seen: dict[Hashable, int] = defaultdict(int)

    def next(self, key: Hashable) -> int:
        """Give the number of the next sample of this thing."""
        if self._look is not None:
            return self._look
        number = self._seen[key]
        self._seen[key] += 1
        return number


def pieces(document: Document, text: str) -> Iterator[Piece]:
    """Split a text by hosts; lines that name none before are of the file's host, if any."""
    by_host: dict[str | None, list[Line]] = {}
    current = document.who.host
    lines = text.split("\n")
    prefixed = sum(_PREFIX.match(line) is not None for line in lines[:400]) > 2
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r")
        if "\x1b" in line:
            line = _ESCAPES.sub("", line)
        host = current
        if prefixed and (found := _PREFIX.match(line)) and found["host"].lower() not in _NO_HOST:
            host, line = found["host"], line[found.end() :]
        elif line[:1] and (told := host_in(line, lines, number)) is not None:
            host = current = told
        by_host.setdefault(host, []).append(Line(number=number, text=line))
    for host, own in by_host.items():
        yield Piece(document=document, host=host, lines=tuple(own), taken_at=document.taken_at)


def host_in(line: str, lines: list[str], number: int) -> str | None:
    """Give the host that a line names for those below it; ``number`` counts from 1."""
    if len(line) > 300:
        return None
    first = line[0]
    if first in "=#*>-" and (found := _RULED.match(line)):
        return _host(found["host"])
    if first == "=" and (found := _TAIL.match(line)):
        return naming.from_path(found["path"]).host
    for pattern in (_UNAME, _PROMPT, _SAYS, _GPUSTAT):
        if (found := pattern.match(line)) is not None:
            return _host(found["host"])
    ruled = 1 < number < len(lines) and _CLUSH.match(lines[number - 2]) is not None
    if ruled and _CLUSH.match(lines[number].rstrip("\r")) and re.fullmatch(_NAME, line):
        return line  # clush -b and dshbak: a name between two rules
    return None


def _host(name: str) -> str | None:
    return None if name.lower() in _NO_HOST else name


def time_before(piece: Piece, position: int) -> float | None:
    """Read the time that nvidia-smi prints on the line above its table."""
    if piece.taken_at is not None:
        return piece.taken_at
    for line in reversed(piece.lines[max(0, position - 3) : position]):
        found = values.moment(line.text)
        if found is not None:
            return found
    return None

"""The lines of what tools print as text, host by host.

A file may hold the output of several commands on several hosts. Which host a line is of is told
by a prefix in front of each (pdsh, clush, mpirun, kubectl: "node7: | 0 NVIDIA …"), by a line
before it (a shell prompt, "==== node7 ====", uname, "hostname: node7"), or by the file's name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from whyhang.analyzer.facts import Record, Source, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.files import naming
from whyhang.collectors.logs.text.clock import time_of

T = TypeVar("T")

_ESCAPES = limits.compile(r"\x1b\[[0-9;]*+[A-Za-z]")
_NAME = r"[A-Za-z][A-Za-z0-9]*(?:[-.][A-Za-z0-9]+)*"
_PREFIX = limits.compile(
    r"(?:\d++: |\[(?:\d++,)?\d++\]<std(?:out|err)>: ?)?(?=[\w.-]{1,253}+:)"
    rf"(?P<host>{_NAME}\d[\w.-]*+|{_NAME}): ?"
    r"(?=[|+#]|GPU |Unable to|\t|\s++(?:Link \d|GPU\d)|\s*+\d++\s)"
)
# The host of the lines below, in a line that names it.
_HOST = limits.compile(
    rf"Linux (?P<host>{_NAME}) \d++\.\d++\.\d++"
    rf"|(?=[^@]*+@)\(?[\w.-]*\)? ?\[?[\w.-]+@(?P<host>{_NAME})(?:[:\s][^#$]*+)?[#$] "
    r"|(?i:[=#*\-\s>\[]*+(?:host(?:name)?|node(?:name)?|machine)\s*+[:=]\s*+"
    rf"(?P<host>{_NAME})[\]=#*\-\s]*+$)"
)
_RULED = limits.compile(
    r"(?P<rule>[=#*>-])(?P=rule)++\s*+(?:on |from |node |host )?"
    rf"(?P<host>{_NAME})\s*+(?:\|.*|:?\s*+(?:[=#*<-]{{2,}})?)$"
)
_CLUSH_RULE = limits.compile(r"-{6,}+$")
_CLUSH_NAME = limits.compile(_NAME)
_TAIL = limits.compile(r"==> (?P<path>\S++) <==$")
_NO_HOST = frozenset(
    {"nvidia", "nvidia-smi", "gpu", "gpus", "processes", "start", "end", "topology", "nvlink"}
    | {"dmesg", "output", "log", "stdout", "stderr", "env", "environment", "driver", "cuda"}
)
_MAX_HEADING = 300  # characters of a line that names a host


class PrintedLine(Record):
    """A line of a file, without what stands before and after it. Numbers count from 1."""

    number: int
    text: str
    file: str

    @property
    def words(self) -> str:
        """The text with single blanks, as patterns and quotes want it."""
        return " ".join(self.text.split())

    @property
    def source(self) -> Source:
        """Where it stands."""
        return Source(file=self.file, line=self.number)


_END = PrintedLine(number=0, text="", file="")


class Lines:
    """The lines of one host. ``for`` yields those that are left; one at which it breaks stays.

    ``who`` is whose the file is.
    """

    def __init__(self, host: str | None, who: Who, lines: Sequence[PrintedLine]) -> None:
        self.host = host
        self.who = who
        self._lines = lines
        self._at = 0

    def __iter__(self) -> Iterator[PrintedLine]:
        while self._at < len(self._lines):
            at = self._at
            yield self._lines[at]
            if self._at == at:  # else the body of the loop has read on itself
                self._at += 1

    @property
    def next(self) -> PrintedLine:
        """The line that is to be read next; an empty one behind the last."""
        return self._lines[self._at] if self._at < len(self._lines) else _END

    @property
    def behind(self) -> PrintedLine:
        """The line behind the next."""
        return self._lines[self._at + 1] if self._at + 1 < len(self._lines) else _END

    @property
    def above(self) -> PrintedLine:
        """The line before the next."""
        return self._lines[self._at - 1] if self._at else _END

    def take(self) -> PrintedLine:
        """Return the next line, and go on to the one behind it."""
        line = self.next
        self._at += 1
        return line

    def below(self, row: Callable[[PrintedLine], T | None], most: int | None = None) -> list[T]:
        """Take the next line, a header, and the rows below it up to a line that is none."""
        self.take()
        rows: list[T] = []
        for line in self:
            read = row(line) if most is None or len(rows) < most else None
            if read is None:
                break
            rows.append(read)
        return rows

    def time_above(self) -> float | None:
        """Read the time that tools print on a line above their table."""
        for line in reversed(self._lines[max(0, self._at - 3) : self._at]):
            time = time_of(line.text, None)
            if time is not None:
                return time
        return None


def by_host(document: Document, text: str) -> list[Lines]:
    """Split a text by hosts; lines before the first that names one are of the file's host."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    lines = [line.rstrip("\r") for line in text.split("\n")]
    prefixed = sum(_PREFIX.match(line) is not None for line in lines[:400]) > 2
    hosts: dict[str | None, list[PrintedLine]] = defaultdict(list)
    current = document.who.host
    for number, whole in enumerate(lines, 1):
        prefix = _PREFIX.match(whole) if prefixed else None
        if prefix is not None and prefix["host"].lower() not in _NO_HOST:
            host, text = prefix["host"], whole[prefix.end() :]
        else:
            current = (_host_named(lines, number) if whole else None) or current
            host, text = current, whole
        hosts[host].append(PrintedLine(number=number, text=text, file=document.path))
    return [Lines(host, document.who, own) for host, own in hosts.items()]


def _host_named(lines: list[str], number: int) -> str | None:
    """Return the host that a line names for those below it; ``number`` counts from 1."""
    line = lines[number - 1]
    if len(line) > _MAX_HEADING:
        return None
    if line[0] in "=#*>-" and (match := _RULED.match(line)):
        return _no_word(match["host"])
    if line.startswith("==> ") and (match := _TAIL.match(line)):
        return naming.from_path(match["path"]).host
    if match := _HOST.match(line):
        return _no_word(match["host"])
    ruled = 1 < number < len(lines) and _CLUSH_RULE.match(lines[number - 2])
    if ruled and _CLUSH_RULE.match(lines[number]) and _CLUSH_NAME.fullmatch(line):
        return line  # clush -b and dshbak: a name between two rules
    return None


def _no_word(name: str) -> str | None:
    return None if name.lower() in _NO_HOST else name


Parser: TypeAlias = Callable[[Lines], Iterable[Any]]
"""Yields facts or drafts of them from the print that begins with the next line; takes no line if
none does."""

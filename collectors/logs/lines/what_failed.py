"""What failed, in the words of programs that nobody knows: a word of failure beside an object.

Every library says the same few things in words of its own: a queue pair could not be made, the
head node was not reached, a file handle went stale. Such a line becomes a ``LogLine`` that is named
for its object, with the line's words in the field ``what``. Signatures know the wordings of many
libraries better; what is left to this reader is for whom none of them speaks.

The objects stand in ``what_failed.toml``.

Since torch 2.0 the message of a failed call of NCCL ends with "Last error:" and, on the line
behind it, the last WARN that NCCL had (``ncclGetLastError``, NCCL 2.13 and later), even where
NCCL_DEBUG is not set. That line becomes a ``LogLine`` with the field ``reason``.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterator

from whyhang.analyzer import toml
from whyhang.analyzer.facts import NOBODY, Fact, LogLine, Record, replace
from whyhang.analyzer.facts.logs import FAILED
from whyhang.collectors import tables
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

MAX_LINES = 100  # of one file and object
MAX_WORDS = 160

GAP = 80  # characters between two words that belong together


class _Object(Record):
    """By which words a line names an object: ``beside`` others, in either order, or alone."""

    beside: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


class _Table(Record):
    not_these: tuple[str, ...]
    words: dict[str, tuple[str, ...]]
    objects: dict[str, _Object]


_TABLE = toml.read(__package__, "what_failed.toml", _Table)


def _objects() -> dict[str, str]:
    patterns = {}
    for name, each in _TABLE.objects.items():
        one, other = (tables.any_of(words, _TABLE.words) for words in (each.beside, each.words))
        ways = (rf"(?:{a})[^\n]{{0,{GAP}}}?(?:{b})" for a, b in ((one, other), (other, one)))
        alone = tables.any_of(each.patterns, _TABLE.words)
        patterns[name] = "(?i)" + "|".join([*(ways if one else ()), *([alone] if alone else ())])
    return patterns


OBJECTS = _objects()
"""The objects, and the patterns of lines that tell that something failed about them."""

_NOT_THESE = re.compile(tables.any_of(_TABLE.not_these, {}))
OTHERS = "others"
"""The object of who waited for other ranks, which people write of in the same words."""
_RAISED = re.compile(r"[\w.]*(?:Error|Exception|Timeout)\b: ")
_HEADER = re.compile(r"^[^a-zA-Z]*(?:[\w./-]+\.(?:cc?|cpp|cu|h|py|rs|go):\d+[\]:]?\s*)?")


@functools.cache
def _compiled() -> dict[str, re.Pattern[str]]:
    """Compile them, in the many milliseconds that a log without a failure need not wait."""
    return {name: re.compile(pattern) for name, pattern in OBJECTS.items()}


def object_of(text: str) -> tuple[str, dict[str, str]] | None:
    """Return about which object a line says that something failed, and what it names."""
    if _NOT_THESE.search(text):
        return None
    for name, pattern in _compiled().items():
        match = pattern.search(text)
        if match is not None:
            named = {key: word for key, word in match.groupdict().items() if word}
            all_came = "came" in named and named["came"] == named["all"]
            return None if all_came else (name, named)
    return None


def _is_of_program(line: FoundLine) -> bool:
    """Return whether a program printed a line: who speaks, the time or an exception shows it."""
    return line.who != NOBODY or line.time is not None or bool(_RAISED.match(line.text))


class WhatFailedReader(LineReader):
    """Collects lines that say what failed."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._lines: dict[int, LogLine] = {}
        self._seen: Counter[str] = Counter()

    @wants(*OBJECTS.values())
    def on_failure(self, line: FoundLine, match: Match) -> None:
        """Note the line by its object, once."""
        failed = object_of(line.text)
        if failed is not None and failed[0] == OTHERS and not _is_of_program(line):
            return
        if failed is None or self._seen[failed[0]] >= MAX_LINES or line.number in self._lines:
            return
        name, named = failed
        self._seen[name] += 1
        words = " ".join(_HEADER.sub("", line.text).split())
        self._lines[line.number] = line.as_fact(
            line.text[: 4 * MAX_WORDS],
            matched=(FAILED + name,),
            fields={**named, "what": words[:MAX_WORDS]},
        )

    def facts(self) -> Iterator[Fact]:
        """Yield the lines, in the order of the file."""
        for line in self._lines.values():
            yield replace(line, who=self._file.speaker(line))


LAST_ERROR = "nccl-last-error"
MAX_ERRORS = 1000  # of one file
MAX_REASON = 300

_NO_REASON = re.compile(
    r"\s*$|Exception raised from |frame #\d|Traceback |The above exception|\s*File "
)


class LastErrorReader(LineReader):
    """Collects the reasons that NCCL gave."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._lines: list[LogLine] = []

    @wants(r"Last error: *$")
    def on_heading(self, line: FoundLine, match: Match) -> None:
        """Read the line behind the heading, if it is a reason."""
        if len(self._lines) >= MAX_ERRORS:
            return
        for number, after in line.following(1, bare=True):
            if _NO_REASON.match(after.text):
                return
            text = after.text.strip()
            self._lines.append(
                line.as_fact(
                    text,
                    source=self._file.document.source(number),
                    matched=(LAST_ERROR,),
                    fields={"reason": text[:MAX_REASON].rstrip(".")},
                )
            )

    def facts(self) -> Iterator[Fact]:
        """Yield the reasons, in the order of the file."""
        for line in self._lines:
            yield replace(line, who=self._file.resolve(line.who))

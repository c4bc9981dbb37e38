"""How a reader of lines is written, and what it gets to see: a line, what is around it, the file.

A reader knows one kind of lines. A method under ``@wants(pattern)`` is called with each line in
which the pattern is found, in the order of the file; one under ``@wants_block(pattern)`` with each
block that holds such lines, of which a log may hold millions. When all of the file has been read,
``facts`` gives what it said. ``readers.py`` lists all readers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from whyhang.analyzer.facts import NOBODY, Fact, Group, LogLine, Source, Trust, Who, replace
from whyhang.analyzer.job.launchers import PER_NODE
from whyhang.analyzer.reading import Document
from whyhang.collectors.logs.engine.byte_blocks import LONGEST, Block
from whyhang.collectors.logs.text.clock import REACH, time_of
from whyhang.collectors.logs.text.line import Line, Voice, clean, take_apart
from whyhang.collectors.logs.text.voice import voice_of

LOOK_BACK = 40  # lines in which a time is looked for, above and below
CARRIED = 60.0  # seconds for which the time of one line is that of those below it
MAX_TEXT = 2000  # characters of a line that are kept
KEPT_LINES = 4096  # of a file, as they were taken apart: several ask for the same
INHERIT = 4  # lines in which the beginning of a message is looked for

# Lines of a message that began in a line before, which says whose it is.
_CONTINUED = re.compile(
    r"[ \t]+\S|nccl[A-Z]\w+Error: |Last error:|Exception raised from |frame #\d+: "
)
# A line whose message is on the next one: a header alone, or the announcement of more.
_IN_GROUP = re.compile(r"\[PG (?:ID )?\d+ [^\]\n]{0,60}?Rank (?P<rank>\d{1,6})\]")
_OPEN = re.compile(
    r"(?:^|\s)(?:Traceback(?: \(most recent call)?|\[(?![\d:]+<)[^\[\]]{1,80}\]|[^\]]{0,200}:)\s*$"
)

_OPEN_ENDS = ("Traceback", "call", "]", ":")
"""How what ``_OPEN`` matches ends: other lines need not be taken apart."""

Method = TypeVar("Method", bound=Callable[..., None])


class FoundLine:
    """A line in which a pattern was found.

    ``text`` is the line without launcher prefix, ``prefix`` what that prefix alone says of ``who``
    speaks.
    """

    def __init__(
        self, block: Block, start: int, line: Line, file: LogFile, beside: Sequence[Line] = ()
    ) -> None:
        self.line = line
        self.who = line.who
        self.prefix = line.prefix
        self.text = line.text
        self.offset = block.file_offset(start)
        self.file = file
        self._block = block
        self._start = start
        self._number: int | None = None
        self._beside = beside  # those behind it in the line as it stands in the file

    @functools.cached_property
    def _end(self) -> int:
        """Where the line ends in its block."""
        return self._block.bounds(self._start)[1]

    @classmethod
    def all_in(cls, block: Block, start: int, end: int, file: LogFile) -> list[FoundLine]:
        """Take apart what seems one line: several, where ranks wrote into each other's lines."""
        parts = file.take_apart(clean(bytes(block.data[start:end])))
        lines = [cls(block, start, line, file, parts[n:]) for n, line in enumerate(parts, 1)]
        if lines[0].who.rank is None:
            lines[0].inherit_speaker(goes_on=_CONTINUED.match(lines[0].text) is not None)
        return lines

    @property
    def raw(self) -> str:
        """Return the line with the prefix, as far as lines are looked at."""
        data = bytes(self._block.data[self._start : self._start + LONGEST])
        return clean(data.partition(b"\n")[0])

    @property
    def number(self) -> int:
        """Return the 1-based number of the line."""
        if self._number is None:
            self._number = self._block.line_at(self._start)
        return self._number

    @property
    def source(self) -> Source:
        """Return the file and line."""
        return self.file.document.source(self.number)

    def as_fact(self, text: str, **more: object) -> LogLine:
        """Return the line as a fact with a text of it; ``more`` are other fields."""
        fact = LogLine(
            who=self.who, text=text, source=self.source, time=self.time, offset=self.offset
        )
        return replace(fact, **more) if more else fact

    @property
    def time(self) -> float | None:
        """Return the line's time, or the last one told just before it.

        That one does not count where the next line with a time is much later: nothing tells then
        when in between this line was printed.
        """
        above = self._time_above()
        if self.line.time is not None or above is None:
            return above
        below = self._time_below()
        return above if below is None or below - above <= CARRIED else None

    def _time_above(self) -> float | None:
        time = self.line.time
        if time is None:
            known, last = self.file.clock  # what was found for a line a little above
            above = self._block.file_offset(self._start)
            for text in self._before(LOOK_BACK):
                above -= len(text)
                if above <= known:
                    time = last
                    break
                if (time := time_of(text, self.file.voice.year)) is not None:
                    break
        self.file.clock = (self.offset, time)
        return time

    def _time_below(self) -> float | None:
        """Return the next time that a line tells, of those just below in what was read."""
        block, at = self._block, self._end + 1
        known, until, time = self.file.clock_below
        if known <= self.offset < until:
            return time
        time = None
        for _ in range(LOOK_BACK):
            if at >= block.end or time is not None:
                break
            start, end = block.bounds(at)
            text = clean(bytes(block.data[start : min(end, start + REACH)]))
            time = time_of(text, self.file.voice.year)
            at = end + 1
        self.file.clock_below = (self.offset, block.file_offset(at - 1), time)
        return time

    def following(self, limit: int, *, bare: bool = False) -> Iterator[tuple[int, Line]]:
        """Yield up to ``limit`` lines behind this one by the same speaker, with their numbers.

        Lines of other ranks in between, as their prefixes tell, are left out. ``bare`` also
        takes lines without any prefix, as the later ones of a C++ message have none.
        """
        block, at, number = self._block, self._end + 1, self.number
        for line in self._beside:
            if line.prefix == self.prefix:
                limit -= 1
                yield number, line
        while limit > 0 and at < block.end:
            start, end = block.bounds(at)
            number += 1
            at = end + 1
            text = clean(bytes(block.data[start : min(end, start + LONGEST)]))
            text = text.rstrip("\r").rpartition("\r")[2]
            for line in self.file.take_apart(text):
                if line.prefix == self.prefix or (bare and line.prefix == NOBODY):
                    limit -= 1
                    yield number, line

    def preceding(self, limit: int) -> Iterator[str]:
        """Yield up to ``limit`` lines before this one, nearest first, without prefixes."""
        for text in self._before(limit):
            yield self.file.take_apart(text)[-1].text

    def above(self) -> Line | None:
        """Return the line just above, if the file has one in what was read with this one."""
        return next((self.file.take_apart(text)[-1] for text in self._before(1)), None)

    def inherit_speaker(self, *, goes_on: bool) -> None:
        """Take over the rank of the line that this one goes on from, a few lines above.

        ``goes_on``: its own words show that it does; else the lines in between have to end open.
        """
        if not goes_on and (self.who.local_rank is not None or self.who.pid is not None):
            return  # a label or a header of its own
        own = _IN_GROUP.search(self.text)
        for text in self._before(INHERIT):
            if not goes_on and not text.rstrip().endswith(_OPEN_ENDS):
                return
            line = self.file.take_apart(text)[-1]
            if not goes_on and not _OPEN.search(line.text):
                return
            if line.prefix.rank is not None or line.prefix.local_rank is not None:
                if own is not None and line.prefix.rank not in {None, int(own["rank"])}:
                    return  # that of another rank, which wrote in between
                self.who = replace(
                    self.who,
                    rank=line.who.rank,
                    local_rank=line.who.local_rank,
                    trust=min(line.who.trust, Trust.INFERRED),
                )
                self.line = replace(self.line, who=self.who)
                return

    def _before(self, limit: int) -> Iterator[str]:
        block, at = self._block, self._start - 1
        while limit > 0 and at > 0:
            start, end = block.bounds(at)
            if end > at:  # ``at`` is the line break itself
                end = at
            yield clean(bytes(block.data[start : min(end, start + LONGEST)]))
            at = start - 1
            limit -= 1


class LogFile:
    """One file while it is read: what all readers of its lines learn together."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._lines: dict[str, list[Line]] = {}
        self.clock: tuple[int, float | None] = (-1, None)  # byte offset, last time told there
        # first and last byte offset between which the next time told is this one
        self.clock_below: tuple[int, int, float | None] = (-1, -1, None)
        self.ranks: dict[int, int] = {}  # of local ranks, on the one host of this log
        self.pids: dict[tuple[str | None, int], int] = {}  # ranks of processes
        self.raised: dict[int, Who] = {}  # who raised the exception on this line
        self.one_host: bool | None = None  # of the whole job; None: not told
        self.launchers: set[str] = set()
        self.mismatch = False  # ranks raised because their calls differ
        # NCCL's communicators by host, process and pointer
        self.comms: dict[tuple[str | None, int | None, str], Group] = {}

    @functools.cached_property
    def voice(self) -> Voice:
        """How to read its lines; learnt from its first bytes once a line is found."""
        return voice_of(self.document.head, self.document.who, self.document.taken_at)

    def take_apart(self, text: str) -> list[Line]:
        """Take a cleaned line of it apart; whoever asks for the same line again gets the same."""
        lines = self._lines.get(text)
        if lines is None:
            if len(self._lines) >= KEPT_LINES:
                self._lines.clear()
            lines = self._lines[text] = take_apart(text, self.voice)
        return lines

    def beginning(self, most: int) -> Iterator[tuple[int, Line]]:
        """Yield its first lines, taken apart, with their numbers, as far as they are at hand."""
        for number, raw in enumerate(self.document.head.split(b"\n", most)[:most], 1):
            for line in self.take_apart(clean(raw[:MAX_TEXT])) if raw.strip() else ():
                yield number, line

    @property
    def tasks_are_nodes(self) -> bool:
        """Return whether srun started a launcher on each node instead of the ranks themselves."""
        return bool(self.launchers & PER_NODE)

    def speaker(self, line: LogLine) -> Who:
        """Return whose line it is; the words of an exception are of who began its traceback."""
        raised = self.raised.get(line.source.line or 0, NOBODY)
        return self.resolve(raised if line.who == NOBODY else line.who)

    def resolve(self, who: Who) -> Who:
        """Fill in a rank that the file told elsewhere, at its end when all is known."""
        if who.rank is not None and who.trust > Trust.INFERRED:
            return who
        if who.pid is not None:
            rank = self.pids.get((who.host, who.pid), self.pids.get((None, who.pid)))
            if rank is not None:
                return replace(who, rank=rank, trust=Trust.NCCL_INIT)
        if who.rank is None and who.local_rank is not None:
            rank = self.ranks.get(who.local_rank)
            if rank is None and self.one_host:
                rank = who.local_rank
            if rank is not None:
                return replace(who, rank=rank, trust=Trust.INFERRED)
        return who


class LineReader:
    """Turns the lines of one kind into facts. Subclasses are made anew for each file."""

    wants: dict[str, str]
    """The name of the method for each pattern whose lines are wanted."""
    wants_blocks: dict[str, str]
    """The same where one hit in a block is enough, and the method reads the block."""

    def __init__(self, file: LogFile) -> None:
        self._file = file

    def __init_subclass__(cls) -> None:
        cls.wants, cls.wants_blocks = {}, {}
        for name, method in vars(cls).items():
            cls.wants |= dict.fromkeys(getattr(method, "lines_wanted", ()), name)
            cls.wants_blocks |= dict.fromkeys(getattr(method, "blocks_wanted", ()), name)

    def facts(self) -> Iterator[Fact]:
        """Yield what the file said, once all of it has been read."""
        raise NotImplementedError


def wants(*patterns: str) -> Callable[[Method], Method]:
    """Mark a method ``(line: FoundLine, match: Match)`` for lines with one of the patterns."""
    return functools.partial(_marked, "lines_wanted", patterns)


def wants_block(*patterns: str) -> Callable[[Method], Method]:
    """Mark a method ``(block: Block)`` for blocks in which one of the patterns is found."""
    return functools.partial(_marked, "blocks_wanted", patterns)


def _marked(name: str, patterns: tuple[str, ...], method: Method) -> Method:
    setattr(method, name, patterns)
    return method

"""Python tracebacks: which rank raised what, and where in the user's code.

Each becomes a ``LogLine`` whose text is the exception's line, with the exception as ``raised``.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import NOBODY, Fact, LogLine, Trust, Who, replace
from whyhang.analyzer.facts.exceptions import Raised
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants
from whyhang.collectors.logs.lines.traceback_text import (
    MAX_LINES,
    MAX_MESSAGE,
    RAY_TASK,
    RAY_TASK_HEAD,
    Traceback,
    close_cut_off,
    in_front,
    read_chain,
    read_frame,
)
from whyhang.collectors.logs.text.line import Line
from whyhang.collectors.stacks.peers import PeerCall, call_in, facts_of

HEAD = 16 << 10  # bytes of a file in which a traceback without its first line is looked for
MAX_TRACEBACKS = 2000  # of one file
_FRAMES_BELOW = '\n  File "'
_HOOK = re.compile(r"\[rank\d+\]: (?:[A-Za-z_][\w.]*\.)?[A-Z]\w*: ")
_LOGGED = re.compile(r"^(?:\S.{0,60})?\b(?:ERROR|CRITICAL|FATAL|hit an exception)\b")
_SPAWNED = re.compile(r"-- Process (?P<index>\d+) terminated with the following error:")
_TABLE_RANK = re.compile(r"\s*rank\s*: (?P<rank>\d+) \(local_rank: \d+\)")

# What a launcher prints above the traceback of a rank: Ray Train, Composer, PyTorch/XLA, Lightning.
_HEADING = re.compile(
    r"\[Rank (?P<rank>\d{1,6}) Error Snippet\]|^-+ ?Begin global rank (?P<rank2>\d{1,6}) STD"
    r"|^Exception in device=(?:TPU|XLA\w*):(?P<rank3>\d{1,6}):"
    r"|DeadLock detected from rank: (?P<rank4>\d{1,6})"
)
_HEADLESS = re.compile(r'(?P<front>(?:\S.{0,80}\] )?)[ \t]*File "[^"\n]+\.py", line \d+, in \S')
_BARE_TYPE = re.compile(r"(?:Error|Exception|Timeout|Interrupt|Exhausted)$")

_OF_RANKS = re.compile(r"(?i)\branks?\b|\bother|\bpeers?\b|\bworkers?\b|\bengine")
_OF_GROUPS = re.compile(r"(?i)Dist\w+Error|process ?group|\bPG |watchdog|\bMPI\b|\bUC[CPX]\b")
"""Words of exceptions of C++ about other ranks."""

# What threading prints above the traceback of a thread; the program goes on without it.
_THREAD = re.compile(r"Exception in thread (?P<thread>[^:]{1,80}):")
_PROCESS = re.compile(r"Process (?P<process>[\w:-]{1,60}):$")  # of multiprocessing


_IGNORED = "Exception ignored"
"""What the interpreter prints above an exception of a finalizer or callback, which ends nothing."""


class TracebackReader(LineReader):
    """Reads every traceback; chained ones become one fact."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._lines: list[LogLine] = []
        self._bare: list[LogLine] = []  # of which the last line stands alone
        self._alone: list[LogLine] = []  # the same without a mark
        self._read_to: dict[Who, int] = {}
        self._calls: list[tuple[Who, PeerCall]] = []
        self._spawned: set[int | None] = set()  # where children of ``mp.spawn`` raised

    @wants(r"Traceback \(most recent call last\):", RAY_TASK)
    def on_traceback(self, line: FoundLine, match: Match) -> None:
        """Read a traceback and those it is chained with."""
        task = RAY_TASK_HEAD.search(line.text)
        if line.number < self._read_to.get(line.prefix, 0) + (task is None):
            return  # the later part of a chain; the end of one task's may be the head of another's
        if len(self._lines) >= MAX_TRACEBACKS:
            return
        above = next(line.preceding(1), "")
        chain = read_chain(line)
        if chain[-1].end is None:
            close_cut_off(chain[-1], line)
        if chain[-1].end is None:
            return
        self._read_to[line.prefix] = chain[-1].end[0]
        if above.startswith(_IGNORED):
            return  # by the interpreter, which goes on
        if RAY_TASK_HEAD.search(chain[-1].end[1].text) and _FRAMES_BELOW in chain[-1].message:
            return  # the error of another task that it waited for, whose traceback follows
        who = _speaker(line)
        if task is not None:
            who = replace(who, pid=int(task["pid"]), host=task["ip"] or who.host)
        if who.local_rank is not None and line.who.local_rank is None:
            self._spawned.add(line.offset)
        thread, process = _THREAD.match(above), _PROCESS.match(above)
        last = self._exception(who, chain, thread["thread"] if thread else None)
        if process and last.raised is not None:
            last = replace(last, raised=replace(last.raised, process=process["process"]))
        time = line.time if last.time is None else last.time
        self._lines.append(replace(last, time=time, offset=line.offset))

    @wants(
        r"^(?P<exception>(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception): \S)",
        r"\b(?:Uncaught|Unhandled)(?: exception)?:? (?P<exception>[A-Z]\w*(?:Error|Exception): \S)",
    )
    def on_bare(self, line: FoundLine, match: Match) -> None:
        """Read the last line of a traceback where it stands alone, as a hook marks or logs it.

        Of others nothing says that they ended a process: they count where a log has nothing else.
        """
        logged = match.start("exception") > 0  # by a program's own hook
        if line.number <= self._read_to.get(line.prefix, 0) or (logged and line.who.rank is None):
            return
        marked = logged or _HOOK.search(line.raw) is not None  # by torch's
        kept = self._bare if marked else self._alone
        above = next(line.preceding(1), "")
        if not marked and (_OF_RANKS.search(line.text) or above.startswith(_IGNORED)):
            return
        traceback = Traceback()
        exception = replace(line.line, text=line.text[match.start("exception") :])
        if len(kept) < MAX_TRACEBACKS and read_frame(traceback, line.number, exception):
            last = self._exception(line.who, [traceback])
            about_others = last.raised is None or last.raised.is_about_others
            if marked or not about_others:
                kept.append(replace(last, time=line.time, offset=line.offset))

    @wants(r"terminate called after throwing an instance of '(?P<type>[^']{1,200})'")
    def on_native(self, line: FoundLine, match: Match) -> None:
        """Read an exception of C++ that nobody caught, unless others brought it about.

        Where its words are lost, the lines above tell what it was about.
        """
        number, text = next(
            ((n, after.text) for n, after in line.following(1, bare=True)), (line.number, "")
        )
        _, what, message = text.partition("what():")
        if not what:
            number, text = line.number, line.text
        raised = Raised(
            type=match["type"].replace("::", "."), message=message.strip()[:MAX_MESSAGE]
        )
        told = str(raised) if what else f"{raised} {' '.join(line.preceding(2))}"
        of_others = raised.is_about_others or not raised.is_own or _OF_GROUPS.search(told)
        if not of_others and len(self._bare) < MAX_TRACEBACKS:
            source = self._file.document.source(number)
            self._bare.append(line.as_fact(text[:MAX_MESSAGE], source=source, raised=raised))

    def _exception(self, who: Who, chain: list[Traceback], thread: str | None = None) -> LogLine:
        """Return the line of the last exception; the first one's, where others brought it about.

        What a rank raises while it handles the loss of a peer follows from that.
        """
        for part in chain:
            part.leave_out_handler()
        first = chain[0]
        telling = chain[-1] if first.raised.is_own else first
        number, line = telling.end or (0, Line(who=who, text=""))
        for below in range(1 + telling.message.count("\n")):
            self._file.raised[number + below] = who
        raised = telling.raised
        if not raised.is_own and (call := call_in(telling.frames, telling.sources, number)):
            self._calls.append((who, call))
        raised = replace(
            raised,
            thread=thread,
            stood=() if raised.is_own or thread else tuple(telling.frames),
        )
        return LogLine(
            who=who,
            text=line.text[:MAX_MESSAGE],
            source=self._file.document.source(number),
            raised=raised,
            time=line.time,
        )

    def _headless(self) -> Iterator[LogLine]:
        """Read a traceback whose beginning was cut off: what was pasted starts in the middle."""
        head = self._file.document.head[:HEAD].partition(b"Traceback (most recent")[0]
        if b'File "' not in head:
            return
        current: Traceback | None = None
        speaker: Who | None = None
        indent = in_front("")
        for number, line in self._file.beginning(min(head.count(b"\n") + 1, MAX_LINES)):
            if current is None and (first := _HEADLESS.match(line.text)):
                current, speaker = Traceback(), line.prefix
                indent = in_front(first["front"])
            if current is None or line.prefix != speaker:
                continue
            text = indent.sub("", line.text, count=1)
            if not read_frame(current, number, replace(line, text=text)):
                return
            if current.end is not None:
                if _BARE_TYPE.search(current.type):
                    yield self._exception(line.who, [current])
                return

    def facts(self) -> Iterator[Fact]:
        """Yield the exceptions, in the order of the file."""
        headless = list(self._headless())
        ends = {line.source for line in headless}
        bare = [line for line in self._bare if line.source not in ends]
        for line in [*headless, *self._lines, *bare] or self._alone:
            who = self._file.resolve(line.who)
            child = who.rank is None and line.offset in self._spawned
            if child and self._file.one_host is not False:
                who = replace(who, rank=who.local_rank, trust=Trust.INFERRED)
            yield replace(line, who=who)
        for speaker, call in self._calls:
            yield from facts_of((call,), self._file.resolve(speaker), self._file.document)


def _speaker(line: FoundLine) -> Who:
    """Return who raised: the parent of ``mp.spawn`` prints which child did."""
    who = line.who
    if who.rank is not None and who.trust > Trust.INFERRED:
        return who
    for distance, text in enumerate(line.preceding(4)):
        if distance < 2 and (heading := _HEADING.search(text)):
            rank = next(filter(None, heading.groups()))
            return replace(who, rank=int(rank), trust=Trust.CONTENT)
        if distance < 2 and who.rank is None and (spawned := _SPAWNED.search(text)):
            return replace(who, local_rank=int(spawned["index"]))
        if table := _TABLE_RANK.match(text):
            return replace(who, rank=int(table["rank"]), trust=Trust.CONTENT)
    if who == NOBODY and (above := line.above()) is not None and _LOGGED.search(above.text):
        # logging prints the header of a message once, and the traceback below it without
        return replace(above.who, trust=min(above.who.trust, Trust.INFERRED))
    return who

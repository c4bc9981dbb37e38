"""Python tracebacks: which rank raised what, and where in the user's code.

Each becomes a ``LogLine`` whose text is the exception's line, with the exception as ``raised``.
The user's own code is what is neither torch's nor an installed package's nor the standard
library's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from whyhang.analyzer.facts import NOBODY, Fact, Frame, LogLine, Trust, Who, replace
from whyhang.analyzer.facts.exceptions import Raised
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants
from whyhang.collectors.logs.text.line import Line, clean, take_apart
from whyhang.collectors.stacks.peers import PeerCall, call_in, facts_of

MAX_LINES = 400  # of one traceback
MAX_MESSAGE = 2000
HEAD = 16 << 10  # bytes of a file in which a traceback without its first line is looked for
MAX_TRACEBACKS = 2000  # of one file

_FRAME = re.compile(
    r' *(?:[|+] *)*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?'
)
_HOOK = re.compile(r"\[rank\d+\]: (?:[A-Za-z_][\w.]*\.)?[A-Z]\w*: ")
_GLUED = re.compile(r"(?:\d+:(?: |$)|\[|\s).*")
"""What stands behind a function where another rank's line is glued to it, with a label."""
_EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*|[a-z_]\w*(?:\.\w+)+)(?:: (?P<message>.*)|:? *)$"
)
_CHAIN = re.compile(
    r"(?:The above exception was the direct cause of|During handling of the above exception)"
)
_NOT_USER = re.compile(
    r"site-packages/|dist-packages/|/lib(?:64)?/python\d|^<frozen|^<string>|^<__array"
    r"|/multiprocessing/|/bin/torchrun$|/bin/deepspeed$|/bin/accelerate$"
)
_LAUNCHER = re.compile(
    r"torch/distributed/(?:run|launch|launcher/api|elastic/(?:agent|rendezvous|multiprocessing/api))"
    r"|accelerate/commands/launch|deepspeed/launcher|torch/multiprocessing/spawn\.py"
)
_C10D = re.compile(r"torch/distributed/(?:distributed_c10d|nn/functional)\.py$")
_WRAPPERS = frozenset(
    {"wrapper", "_new_process_group_helper", "_new_group_with_tag", "_store_based_barrier"}
)
_WORKER = re.compile(r"in DataLoader worker process (?P<worker>\d+)")
_SPAWNED = re.compile(r"-- Process (?P<index>\d+) terminated with the following error:")
_TABLE_RANK = re.compile(r"\s*rank\s*: (?P<rank>\d+) \(local_rank: \d+\)")
# What a launcher prints above the traceback of a rank: Ray Train, Composer, PyTorch/XLA, Lightning.
_HEADING = re.compile(
    r"\[Rank (?P<rank>\d{1,6}) Error Snippet\]|^-+ ?Begin global rank (?P<rank2>\d{1,6}) STD"
    r"|^Exception in device=(?:TPU|XLA\w*):(?P<rank3>\d{1,6}):"
    r"|DeadLock detected from rank: (?P<rank4>\d{1,6})"
)
_LOGGED = re.compile(r"^\S.{0,60}\b(?:ERROR|CRITICAL|FATAL|hit an exception)\b")
_INNER = "Original Traceback (most recent call last):"
# Ray's words above a traceback of a task: whose it is stands in it.
_TASK = r"\bray::[\w.<>:]{1,200}\(\) \(pid=(?P<pid>\d{1,10})(?:, ip=(?P<ip>[\w.:]{1,60}))?"
_TASK_HEAD = re.compile(_TASK)
_OF_LAUNCHERS = frozenset(
    {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "SignalException"}
)
_HEADLESS = re.compile(r'[ \t]*File "[^"\n]+\.py", line \d+, in \S')
_BARE_TYPE = re.compile(r"(?:Error|Exception|Timeout|Interrupt|Exhausted)$")
LEAST_FRAMES = 2  # of a traceback whose end is cut off
INNER = 4  # of its frames, in which torch.distributed would have let it down
_FOREIGN = 8  # lines of others that may stand between those of one traceback

# What threading prints above the traceback of a thread; the program goes on without it.
_THREAD = re.compile(r"Exception in thread (?P<thread>[^:]{1,80}):")


@dataclass
class _Traceback:
    """One traceback as far as it has been read."""

    frames: list[Frame] = field(default_factory=list)  # innermost first
    sources: list[str] = field(default_factory=list)  # the line of source of each frame
    end: tuple[int, Line] | None = None  # the line of the exception
    type: str = ""
    message: str = ""
    foreign: int = 0

    @property
    def user_frame(self) -> Frame | None:
        """Return the innermost frame of the user's own code."""
        for frame in self.frames:
            if not _NOT_USER.search(frame.file):
                return frame
        return self.frames[-1] if self.frames else None

    @property
    def op(self) -> str | None:
        """Return the function of torch.distributed it was raised in."""
        for frame in self.frames:
            if _C10D.search(frame.file) and frame.function not in _WRAPPERS:
                return frame.function.rpartition(".")[2]
        return None

    @property
    def raised(self) -> Raised:
        """Return what it says."""
        return Raised(
            type=self.type,
            message=self.message[:MAX_MESSAGE],
            frame=self.user_frame,
            op=self.op,
            of_launcher=self.of_launcher,
        )

    @property
    def of_launcher(self) -> bool:
        """Return whether a launcher raised it, which speaks of the ranks it started."""
        innermost = bool(self.frames) and _LAUNCHER.search(self.frames[0].file) is not None
        return innermost or self.type in _OF_LAUNCHERS


class TracebackReader(LineReader):
    """Reads every traceback; chained ones become one fact."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._lines: list[LogLine] = []
        self._bare: list[LogLine] = []  # of which the last line stands alone
        self._read_to: dict[Who, int] = {}
        self._calls: list[tuple[Who, PeerCall]] = []
        self._spawned: set[int | None] = set()  # where children of ``mp.spawn`` raised

    @wants(r"Traceback \(most recent call last\):", _TASK)
    def on_traceback(self, line: FoundLine, match: Match) -> None:
        """Read a traceback and those it is chained with."""
        if line.number <= self._read_to.get(line.prefix, 0):
            return  # the later part of a chain
        if len(self._lines) >= MAX_TRACEBACKS:
            return
        chain = _read_chain(line)
        if chain[-1].end is None:
            _close(chain[-1], line)
        if chain[-1].end is None:
            return
        self._read_to[line.prefix] = chain[-1].end[0]
        who = _speaker(line)
        if task := _TASK_HEAD.search(line.text):
            who = replace(who, pid=int(task["pid"]), host=task["ip"] or who.host)
        if who.local_rank is not None and line.who.local_rank is None:
            self._spawned.add(line.offset)
        thread = _THREAD.match(next(line.preceding(1), ""))
        last = self._exception(who, chain, thread["thread"] if thread else None)
        time = line.time if last.time is None else last.time
        self._lines.append(replace(last, time=time, offset=line.offset))

    @wants(r"\b(?:Uncaught|Unhandled)(?: exception)?:? [A-Z]\w*(?:Error|Exception): \S")
    def on_uncaught(self, line: FoundLine, match: Match) -> None:
        """Read what a program's own hook logs of the exception that ends it."""
        exception = line.text[match.start() :].partition(" ")[2]
        exception = exception.removeprefix("exception").lstrip(": ")
        traceback = _Traceback()
        if line.who.rank is None or len(self._bare) >= MAX_TRACEBACKS:
            return
        if _read_frame(traceback, line.number, replace(line.line, text=exception)):
            last = self._exception(line.who, [traceback])
            self._bare.append(replace(last, time=line.time, offset=line.offset))

    @wants(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception): \S")
    def on_bare(self, line: FoundLine, match: Match) -> None:
        """Read the last line of a traceback, which torch's hook marks, where it stands alone."""
        if line.number <= self._read_to.get(line.prefix, 0) or not _HOOK.search(line.raw):
            return
        traceback = _Traceback()
        if len(self._bare) < MAX_TRACEBACKS and _read_frame(traceback, line.number, line.line):
            last = self._exception(line.who, [traceback])
            self._bare.append(replace(last, time=line.time, offset=line.offset))

    def _exception(self, who: Who, chain: list[_Traceback], thread: str | None = None) -> LogLine:
        """Return the line of the last exception; the first one's, where others brought it about.

        What a rank raises while it handles the loss of a peer follows from that.
        """
        first = chain[0]
        telling = chain[-1] if first.raised.is_own else first
        number, line = telling.end or (0, Line(who=who, text=""))
        self._file.raised[number] = who
        raised = telling.raised
        if not raised.is_own and (call := call_in(telling.frames, telling.sources, number)):
            self._calls.append((who, call))
        workers = [worker for part in chain if (worker := _WORKER.search(part.message))]
        cause = f"{first.type}: {first.message}"[:MAX_MESSAGE]
        raised = replace(
            raised,
            cause=cause if first is not telling else "",
            worker=int(workers[-1]["worker"]) if workers else None,
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
        document = self._file.document
        head = document.head[:HEAD].partition(b"Traceback (most recent")[0]
        if b'File "' not in head:
            return
        current: _Traceback | None = None
        speaker: Who | None = None
        for number, raw in enumerate(head.split(b"\n")[:MAX_LINES], 1):
            for line in take_apart(clean(raw), self._file.voice):
                if current is None and _HEADLESS.match(line.text):
                    current, speaker = _Traceback(), line.prefix
                if current is None or line.prefix != speaker:
                    continue
                if not _read_frame(current, number, line):
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
        for line in [*headless, *self._lines, *bare]:
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


def _close(traceback: _Traceback, line: FoundLine) -> None:
    """End a rank's traceback whose last line is not there, where it tells whose fault it is.

    Within a collective it does not: the rank may have been let down by another.
    """
    own = line.who.rank is not None and line.who.trust > Trust.INFERRED
    if not own or len(traceback.frames) < LEAST_FRAMES or traceback.op:
        return
    if any("torch/distributed/" in frame.file for frame in traceback.frames[:INNER]):
        return
    *_, traceback.end = line.following(len(traceback.frames))
    traceback.type = "an exception, whose words are cut off"


def _read_chain(line: FoundLine) -> list[_Traceback]:
    """Read a traceback, and further ones that name it as their cause, in the order printed.

    A DataLoader prints the worker's traceback within the message of its own exception; that
    one comes last, too.
    """
    chain = [_Traceback()]
    chained = False
    indent = _in_front(line.text)
    for number, indented in line.following(MAX_LINES):
        current = chain[-1]
        after = replace(indented, text=indent.sub("", indented.text, count=1))
        if current.end is None:
            if not _read_frame(current, number, after):
                break
        elif after.text.endswith(_INNER) or (
            chained and ("Traceback (most" in after.text or _TASK_HEAD.search(after.text))
        ):
            chain.append(_Traceback())
            chained = False
        elif _CHAIN.search(after.text):
            chained = True
        elif after.text.strip() and not chained:
            if not after.text.startswith((" ", "\t")):
                break
            if len(current.message) < MAX_MESSAGE:
                current.message += "\n" + after.text
    return chain if chain[-1].end is not None or len(chain) == 1 else chain[:-1]


def _in_front(text: str) -> re.Pattern[str]:
    """Return what stands in front of each line of a traceback: blanks, or a logger's header.

    Loggers that part a message put the header before each of its lines, with the time of that line.
    """
    front = text.partition("Traceback (most recent")[0]
    if front.strip() and "(most recent" in text:
        return re.compile(re.sub(r"\d+", r"\\d+", re.escape(front.rstrip())) + " ?")
    return re.compile(f" {{0,{len(text) - len(text.lstrip())}}}")


def _unspliced(kind: str, message: str) -> tuple[str, str]:
    """Take apart what two ranks wrote over each other: "KeyErrorKeyError: : 'x''x'"."""
    half = len(kind) // 2
    if len(kind) % 2 or kind[:half] != kind[half:]:
        return kind, message
    message = message.removeprefix(": ")
    middle = len(message) // 2
    same = len(message) % 2 == 0 and message[:middle] == message[middle:]
    return kind[:half], message[:middle] if same else message


def _read_frame(current: _Traceback, number: int, line: Line) -> bool:
    """Read a line of a traceback before its exception; False: it ends without one."""
    text = line.text
    if frame := _FRAME.match(text):
        function, file, at = frame["function"] or "", frame["file"], int(frame["line"])
        function = _GLUED.sub("", function)
        current.frames.insert(0, Frame(function=function, file=file, line=at))
        current.sources.insert(0, "")
    elif text[:1] in (" ", "\t") and current.sources and not current.sources[0]:
        current.sources[0] = text.strip()
    elif text[:1] not in ("", " ", "\t"):
        if raised := _EXCEPTION.match(text):
            current.end = (number, line)
            kind = raised["type"].rpartition(".")[2]
            current.type, current.message = _unspliced(kind, raised["message"] or "")
            return True
        current.foreign += 1
    return current.foreign <= _FOREIGN

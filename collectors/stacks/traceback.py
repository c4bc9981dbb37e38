r"""Python tracebacks that say where a process stands, rather than what went wrong.

``traceback.print_stack`` in a signal handler (no head line), ``logging``'s ``Stack (most recent
call last):``, the well-known loops over ``sys._current_frames()`` (a line per thread, then its
frames), and the ``KeyboardInterrupt`` of a person who ended the hanging job. Outermost frame
first. The traceback of any other exception says what failed and is left to the log readers;
so is a stack that a healthy program logged in passing: without a head line it counts only
where a signal or a stack is spoken of, or where the file is little else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from whyhang.analyzer.model import NOBODY, Fact, Frame, Record, Thread, Who
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.stacks import heading as stack_heading
from whyhang.collectors.stacks import owner as stack_owner
from whyhang.collectors.stacks import text as stack_text
from whyhang.collectors.stacks.heading import Heading
from whyhang.collectors.stacks.owner import Found
from whyhang.collectors.stacks.text import Passage

_FRAME = re.compile(r'([ \t>|]*)File:? "([^"\n]*)", line (\d{1,9}), in (\S+)')
_EXCEPTION = re.compile(r"[ \t>|]*Traceback \(most recent call last\):")
_STACK = re.compile(r"[ \t>|]*Stack \(most recent call last\):")
_HEADS = re.compile(r"[^\n]*\(most recent call [^\n]*|[^\n]*Traceback for thread [^\n]*")
_OTHER_TOOL = re.compile(r"\(most recent call first\)|Traceback for thread \d")
_INTERRUPTED = re.compile(r"[ \t>|]*(?:[\w.]+\.)?(?:KeyboardInterrupt|SignalException)\b")
_RAISED = re.compile(r"[ \t>|]*[A-Za-z_][\w.]*(?:Error|Exception|Exit|Warning|Interrupt)\b")
_CHAINED = "During handling of the above exception"
_THREAD = re.compile(
    r"^[\s#*=>|-]*(?:Traceback for thread |Thread|ThreadID|Stack (?:trace )?(?:of|for) thread)"
    r"[\s:#]*(?P<words>[^\n]{0,160})$",
    re.IGNORECASE,
)
_ID = re.compile(r"0x[0-9A-Fa-f]{4,16}|(?<![\w.])\d{3,20}(?![\w.])")
_NAME = re.compile(r"MainThread|[A-Za-z][\w-]*(?: \([\w.]+\))?")
_TRIGGER = re.compile(
    r"SIG(?:USR|ALRM|TERM|QUIT)|signal|stack ?trace|traceback|dump|stuck|hang|hung|watchdog",
    re.IGNORECASE,
)
_SHARE = 0.5  # of the lines that speak, in a file that is a dump and little else


class _Run(Record):
    """Frames that stand together, with the lines before and behind them."""

    frames: tuple[Frame, ...]  # outermost first
    first: int
    last: int  # the line behind
    above: tuple[str, ...]
    behind: str


class _Traceback:
    """Reads stacks as Python's traceback module prints them."""

    name = "Python stack traces"

    def sniff(self, document: Document) -> bool:
        return stack_text.holds(document, stack_text.LAST[1:])

    def read(self, document: Document) -> Iterator[Fact]:
        for passage in stack_text.passages(document, stack_text.LAST[1:]):
            for section, found in _sections(passage):
                yield from stack_owner.dumps(document, passage, "traceback", section, found)


READER: Reader = _Traceback()


def _sections(passage: Passage) -> Iterator[tuple[Who, list[Found]]]:
    lines = passage.text.split("\n")
    starts = _offsets(lines)
    runs = list(_runs(lines))
    covered = sum(run.last - run.first for run in runs)
    spoken = sum(1 for line in lines if line.strip())
    mostly = covered >= _SHARE * spoken
    gathering = _Gathering()
    before, other_tool = 0, False
    for run in runs:
        between = "\n".join(lines[before : run.first])
        yield from gathering.heed(between)
        before = run.last
        other_tool = _is_other_tool(between, before=other_tool)
        stack = None if other_tool else _stack(run, mostly=mostly)
        if stack is not None:
            gathering.add(stack, passage.line(starts[run.first]))
        else:
            gathering.close()
    yield from gathering.flush()


def _is_other_tool(between: str, *, before: bool) -> bool:
    """Tell frames that stand under a head line of gdb's py-bt, faulthandler or pystack."""
    heads = list(_HEADS.finditer(between))
    return _OTHER_TOOL.search(heads[-1][0]) is not None if heads else before


def _offsets(lines: list[str]) -> list[int]:
    at, starts = 0, []
    for line in lines:
        starts.append(at)
        at += len(line) + 1
    return starts


def _runs(lines: list[str]) -> Iterator[_Run]:
    """Find frames that follow each other, with the source lines under them."""
    at = 0
    while at < len(lines):
        if _FRAME.match(lines[at]) is None:
            at += 1
            continue
        first, frames = at, []
        while at < len(lines):
            found = _FRAME.match(lines[at])
            if found is None:
                break
            frames.append(stack_text.frame(found[4], found[2], int(found[3])))
            at += 1
            indent = len(found[1])
            while at < len(lines) and _is_source(lines[at], indent):
                at += 1
        above = [line for line in lines[max(0, first - 4) : first] if line.strip()]
        behind = next((line for line in lines[at : at + 3] if line.strip()), "")
        yield _Run(frames=tuple(frames), first=first, last=at, above=tuple(above), behind=behind)


def _is_source(line: str, indent: int) -> bool:
    """Tell a line of source, a row of ^^^^ or "[Previous line repeated]" under a frame."""
    depth = len(line) - len(line.lstrip(" \t>|"))
    return depth > indent and bool(line.strip()) and _FRAME.match(line) is None


def _stack(run: _Run, *, mostly: bool) -> tuple[Thread, bool] | None:
    """Make a thread of a run, and say whether it is the main thread alone; None: not a stack."""
    head = run.above[-1] if run.above else ""
    frames = stack_text.shared(tuple(reversed(run.frames)))
    if _EXCEPTION.match(head):
        chained = any(_CHAINED in line for line in run.above)
        if chained or _INTERRUPTED.match(run.behind) is None:
            return None
        return Thread(frames=frames, name=stack_owner.MAIN), True
    if found := _THREAD.match(head):
        return _named_thread(frames, found["words"]), False
    spoken_of = _STACK.match(head) or any(_TRIGGER.search(line) for line in run.above)
    if _RAISED.match(run.behind) or len(run.frames) < 2 or not (mostly or spoken_of):
        return None
    return Thread(frames=frames, name=stack_owner.MAIN), True


def _named_thread(frames: tuple[Frame, ...], words: str) -> Thread:
    digits = _ID.search(words)
    name = _NAME.search(words[: digits.start()] + words[digits.end() :] if digits else words)
    return Thread(
        frames=frames,
        name=name[0] if name else None,
        tid=_id(digits[0]) if digits else None,
    )


def _id(digits: str) -> int:
    """Read a thread's number; a decimal one may begin with zeros."""
    return int(digits, 16 if digits.startswith("0x") else 10)


class _Gathering:
    """Puts the threads of one process together; a thread seen again begins another one."""

    def __init__(self) -> None:
        self._heading = Heading()
        self._found: list[Found] = []
        self._threads: list[Thread] = []
        self._line = 1

    def heed(self, rest: str) -> Iterator[tuple[Who, list[Found]]]:
        for said in stack_heading.above(rest):
            if said.who.rank is None and said.who.host is None and said.copies == 1:
                continue  # a thread's line: "# Thread: MainThread(140…)"
            same = not self._found and not self._threads
            yield from self.flush()
            self._heading = self._heading.then(said, same=same)

    def add(self, stack: tuple[Thread, bool], line: int) -> None:
        thread, alone = stack
        seen = any((other.tid, other.name) == (thread.tid, thread.name) for other in self._threads)
        if alone or seen:
            self.close()
        if not self._threads:
            self._line = line
        self._threads.append(thread)
        if alone:
            self.close(main_only=True)

    def close(self, *, main_only: bool = False) -> None:
        if self._threads:
            found = Found(
                who=NOBODY,
                threads=stack_owner.name_main(self._threads),
                line=self._line,
                main_only=main_only,
                copies=self._heading.copies,
                ranks=self._heading.ranks,
            )
            self._found.append(found)
        self._threads = []

    def flush(self) -> Iterator[tuple[Who, list[Found]]]:
        self.close()
        if self._found:
            yield self._heading.who, self._found
            self._found = []

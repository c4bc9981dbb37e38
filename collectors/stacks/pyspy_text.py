r"""py-spy's text, of any version and option, alone or many in one file.

Its form (``src/dump.rs``): ``Process PID: command line``, ``Python vX (executable)``, with
``--subprocesses`` also ``Parent Process PID: …``, an empty line, then for each thread
``Thread TID (idle|active[+gil]): "name"`` and its frames, innermost first, four spaces in;
with ``--locals`` each frame is followed by ``Arguments:`` and ``Locals:``, eight spaces in.

People also leave the head lines out, write several thread lines above one stack ("these all
stand here") and put headings of their own between dumps.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from whyhang.analyzer.model import NOBODY, Fact, Frame, Record, Thread, Who, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors.files.naming import join
from whyhang.collectors.stacks import heading as stack_heading
from whyhang.collectors.stacks import launched
from whyhang.collectors.stacks import owner as stack_owner
from whyhang.collectors.stacks import text as stack_text
from whyhang.collectors.stacks.heading import Heading
from whyhang.collectors.stacks.owner import Found
from whyhang.collectors.stacks.text import Passage

TOOL = "py-spy"

_HEAD = re.compile(
    r"^[ \t>|*#]*(?:"
    r"Thread (?P<tid>0x[0-9A-Fa-f]{1,16}|\d{1,20}) \((?P<state>idle|active)(?P<gil>\+gil)?\)"
    r'(?:: "(?P<name>[^"\n]*)"?)?'
    r"|(?P<parent>Parent )?Process (?P<pid>\d{1,10}): (?P<command>[^\n]*)"
    r"|Python v\d[^\n]*"
    r")[^\n]*$",
    re.MULTILINE,
)
_CACHED_LENGTH = 16 * 1024


class Body(Record):
    """What stands under a thread line: frames, ranks among the locals, and what comes after."""

    frames: tuple[Frame, ...]
    told: Who
    rest: str  # lines behind the stack, which may head the next one


_NO_BODY = Body(frames=(), told=NOBODY, rest="")


def read(document: Document) -> Iterator[Fact]:
    """Yield a dump for each process in the text, in its order."""
    for passage in stack_text.passages(document, stack_text.PYSPY):
        for head, found in _sections(passage):
            yield from stack_owner.dumps(document, passage, TOOL, head, found)


_OWN_LINES = (b"    ", b"Thread ", b"Process ", b"Python v", b"Parent Process ", b"------")


def is_dump_alone(document: Document) -> bool:
    """Tell a file with nothing in it but what py-spy printed."""
    return document.size <= len(document.head) and all(
        line.startswith(_OWN_LINES) or not line for line in document.head.split(b"\n")
    )


class _Building:
    """One process while its threads are read."""

    def __init__(self, line: int, heading: Heading) -> None:
        self.line = line
        self.heading = heading
        self.pid: int | None = None
        self.parent: int | None = None
        self.command: str | None = None
        self.threads: list[Thread] = []
        self.told = NOBODY

    def done(self) -> Found:
        who = self.told
        if self.pid is not None or self.command is not None:
            who = join(Who(pid=self.pid), launched.told_by_command(self.command or ""), who)
        return Found(
            who=who,
            threads=self._named(),
            line=self.line,
            parent=self.parent,
            command=self.command,
            copies=self.heading.copies,
            ranks=self.heading.ranks,
        )

    def _named(self) -> tuple[Thread, ...]:
        """Name the main thread where neither a name nor the pid tells it (py-spy before 0.3)."""
        if any(thread.name is not None or thread.tid == self.pid for thread in self.threads):
            return tuple(self.threads)
        return stack_owner.name_main(self.threads)


def _sections(passage: Passage) -> Iterator[tuple[Who, list[Found]]]:
    """Yield the processes that stand under each heading."""
    reading = _Reading(passage)
    for found in _HEAD.finditer(passage.text):
        yield from reading.at(found)
    yield from reading.end()


class _Reading:
    """Goes through the thread and process lines of a text, from one to the next."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage
        self._text = passage.text
        self._behind = 0  # end of the line before
        self._open: re.Match[str] | None = None  # the thread line whose stack comes now
        self._heading = Heading()
        self._fresh: _Building | None = None  # the process that threads now belong to
        self._found: list[_Building] = []
        self._bare: list[_Building] = []  # thread lines without a stack of their own

    def at(self, head: re.Match[str]) -> Iterator[tuple[Who, list[Found]]]:
        rest = self._close(head.start())
        yield from self._heed(rest)
        self._behind = head.end()
        if head["tid"]:
            self._open = head
        elif head["parent"]:
            if self._fresh is not None:
                self._fresh.parent = int(head["pid"])
        elif head["pid"]:
            self._process(head)

    def end(self) -> Iterator[tuple[Who, list[Found]]]:
        self._close(len(self._text))
        yield from self._flush()

    def _process(self, head: re.Match[str]) -> None:
        self._fresh = self._new(head.start())
        self._fresh.pid = int(head["pid"])
        self._fresh.command = head["command"].strip()

    def _new(self, offset: int) -> _Building:
        made = _Building(self._passage.line(offset), self._heading)
        self._found.append(made)
        if self._heading.copies > 1 or self._heading.ranks:
            self._heading = Heading(who=self._heading.who)  # it speaks of the next stack only
        return made

    def _close(self, upto: int) -> str:
        """Finish the open thread with the text up to ``upto``; give what is no stack of it."""
        text = self._text[self._behind : upto]
        head, self._open = self._open, None
        if head is None:
            return text
        body = _body(text) if len(text) <= _CACHED_LENGTH else _parse(text)
        self._thread(head, body)
        return body.rest

    def _thread(self, head: re.Match[str], body: Body) -> None:
        digits = head["tid"]
        tid = int(digits, 16) if digits.startswith("0x") else int(digits)
        line = self._passage.line(head.start())
        thread = Thread(
            frames=body.frames,
            name=head["name"],
            tid=tid,
            active=head["state"] == "active",
            holds_gil=head["gil"] is not None,
            line=line,
        )
        process = self._fresh
        if process is None or self._begins_process(process, thread):
            process = self._fresh = self._new(head.start())
            if _is_main(thread) and not digits.startswith("0x"):
                process.pid = tid  # the main thread's id is the pid
        process.threads.append(thread)
        if body.told is not NOBODY and process.told is NOBODY:
            process.told = body.told
        self._share(process, body.frames)

    def _begins_process(self, process: _Building, thread: Thread) -> bool:
        """Tell whether a thread line begins another process, where no process line says so."""
        if not process.threads or not _is_main(thread):
            return False
        return any(_is_main(other) for other in process.threads)

    def _share(self, process: _Building, frames: tuple[Frame, ...]) -> None:
        """Give a stack to the main threads that stand above it without one."""
        if not frames:
            if len(process.threads) == 1 and _is_main(process.threads[0]):
                self._bare.append(process)
            return
        for bare in self._bare:
            if len(bare.threads) == 1 and bare is not process and len(process.threads) == 1:
                only = bare.threads[0]
                bare.threads = [replace(only, frames=frames)]
        self._bare.clear()

    def _heed(self, rest: str) -> Iterator[tuple[Who, list[Found]]]:
        """Take in the lines between dumps: a heading ends what stood under the one before."""
        if not rest or rest.isspace():
            return
        for said in stack_heading.above(rest):
            same = not self._found
            yield from self._flush()
            self._heading = self._heading.then(said, same=same)

    def _flush(self) -> Iterator[tuple[Who, list[Found]]]:
        found = [one.done() for one in self._found if one.threads]
        if found:
            yield self._heading.who, launched.by_order(found)
        self._found = []
        self._bare.clear()
        self._fresh = None


def _is_main(thread: Thread) -> bool:
    if thread.name is not None:
        return thread.name == "MainThread"
    return stack_owner.outermost(thread.frames) == "<module>"


@functools.lru_cache(maxsize=1 << 14)
def _body(text: str) -> Body:
    return _parse(text)


def _parse(text: str) -> Body:
    """Take the frames off the front of a text, with the locals under them."""
    frames: list[Frame] = []
    told: list[Who] = []
    indent: int | None = None
    section = ""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        bare = line.strip()
        if not bare:
            if frames:
                return _made(frames, told, lines[number:])
            continue
        depth = len(line) - len(line.lstrip(" \t>|"))
        if indent is None or depth <= indent:
            parsed = _frame(bare.lstrip(">| \t"))
            if parsed is None:
                return _made(frames, told, lines[number:])
            indent = depth
            frames.append(parsed)
            section = ""
        elif bare in ("Arguments:", "Locals:"):
            section = bare
        elif section:
            told.extend(_local(bare, section, frames[-1]))
    return _made(frames, told, [])


def _made(frames: list[Frame], told: list[Who], rest: list[str]) -> Body:
    return Body(
        frames=stack_text.shared(tuple(frames)),
        told=launched.agreed(told),
        rest="\n".join(rest),
    )


def _frame(text: str) -> Frame | None:
    """Read ``function (file:line)``; native frames have no line, or one in a C source."""
    function, found, place = text.rpartition(" (")
    if not found or not place.endswith(")") or not function:
        return None
    file, colon, digits = place[:-1].rpartition(":")
    if colon and digits.isdecimal():
        native = stack_text.is_native_file(file)
        return stack_text.frame(function, file, int(digits), native=native)
    file = place[:-1]
    if not file or " " in file.strip():
        return None
    return stack_text.frame(function, file, None, native=stack_text.is_native_file(file))


def _local(text: str, section: str, frame: Frame) -> Iterator[Who]:
    """Find a rank among the locals of one frame, where a library does not use the name."""
    name, colon, value = text.partition(": ")
    if not colon or not value.isdecimal() or len(value) > 6:
        return
    yield from launched.told_by_local(name, int(value), frame, argument=section == "Arguments:")

r"""py-spy's text, of any version and option, alone or many in one file.

Its form (``src/dump.rs``): ``Process PID: command line``, ``Python vX (executable)``, with
``--subprocesses`` also ``Parent Process PID: …``, an empty line, then for each thread
``Thread TID (idle|active[+gil]): "name"`` and its frames, innermost first, four spaces in;
with ``--locals`` each frame is followed by ``Arguments:`` and ``Locals:``, eight spaces in.

People also leave the head lines out, even those of threads, write several thread lines above one
stack ("these all stand here"), put headings of their own between dumps, "..." for what they cut out
and notes behind an arrow.
"""

import functools
import re

from whyhang.analyzer.facts import NOBODY, Frame, Record, Thread, Who, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors.files.naming import join
from whyhang.collectors.stacks import launched, peers
from whyhang.collectors.stacks.frames import (
    MAIN,
    frame,
    is_native_file,
    name_main,
    outermost,
    shared,
)
from whyhang.collectors.stacks.passages import FIRST, LAST, PYSPY, Passage, holds
from whyhang.collectors.stacks.peers import PeerCall
from whyhang.collectors.stacks.reader import StackText
from whyhang.collectors.stacks.sections import Head, ProcessStacks, Sections

# Needs no time limit: each of its parts ends where the next begins. Most files are read by it.
_HEAD = re.compile(
    r"^[ \t>|*#]*(?:"
    r"Thread (?:(?P<tid>0x[0-9A-Fa-f]{1,16}|\d{1,20})(?:\.{3}|…)? )?"
    r"\((?P<state>idle|active)(?P<gil>\+gil)?\)"
    r"(?(tid)|(?=: \"))"
    r'(?:: "(?P<name>[^"\n]*)"?)?'
    r"|(?P<parent>Parent )?Process (?P<pid>\d{1,10}): (?P<command>[^\n]*)"
    r"|Python v\d[^\n]*"
    r")[^\n]*$",
    re.MULTILINE,
)
# Lines of frames alone, with no thread line anywhere: two in a row are no accident. Those of
# faulthandler have a form of their own.
_OF_FAULTHANDLER = r'File "(?P<file>[^"\n]+)", line (?P<line>\d{1,7}) in (?P<function>[\w.<>]+)'
_FRAMES = (
    r"(?:^[ \t>|]*(?:\.\.\. )?(?:[\w.<>]+ \([^\s():]+\.py:\d{1,7}\)|"
    + re.sub(r"\?P<\w+>", "?:", _OF_FAULTHANDLER)
    + r")[ \t]*(?:[ \t](?:←|→|<-|->|#)[^\n]*)?\r?\n?){2,200}"
)
_HEADS = (*FIRST, LAST[0])
"""What stands above the stacks that other readers look for."""

_FAULTHANDLERS_FRAME = re.compile(_OF_FAULTHANDLER)
_BARE = re.compile(_FRAMES, re.MULTILINE)
_BARE_BYTES = re.compile(_FRAMES.encode(), re.MULTILINE)
_CACHED_LENGTH = 16 * 1024
LEAST_REST = 3  # frames of a stack without a head that are no accident
_LONGEST_NUMBER = 7  # digits
_NOTE = re.compile(r"(?<=\d\))\s+(?:←|→|<-|->|#)[^\n]*$")  # "f (a.py:3)  ← it stands here"
_COMMAND_NOTE = re.compile(r"\s+(?:←|→)\s[^\n]*$")
_OWN_LINES = (b"    ", b"Thread ", b"Process ", b"Python v", b"Parent Process ", b"------")


class _PyspyText(StackText):
    def sniff(self, document: Document) -> bool:
        """Return whether there is a thread line in it, or frames without one in a small file."""
        return super().sniff(document) or (
            document.size <= len(document.head)
            and not holds(document, _HEADS)
            and _BARE_BYTES.search(document.head) is not None
        )

    def owns(self, document: Document) -> bool:
        """Tell a file with nothing in it but what py-spy printed."""
        return document.size <= len(document.head) and all(
            line.startswith(_OWN_LINES) or not line for line in document.head.split(b"\n")
        )


class _Body(Record):
    """What stands under a thread line.

    ``who`` is what ranks among the locals say, ``rest`` the lines behind the stack, which may
    head the next one.
    """

    frames: tuple[Frame, ...]
    who: Who = NOBODY
    calls: tuple[PeerCall, ...] = ()
    rest: str = ""


class _Pyspy(Sections):
    """Takes process lines and thread lines; either may be missing."""

    head = _HEAD

    def __init__(self) -> None:
        super().__init__()
        self._open: ProcessStacks | None = None  # the process that threads now belong to
        self._who = NOBODY  # what its locals say
        self._calls: list[PeerCall] = []
        self._without_stack: list[int] = []  # processes of one thread line with nothing below

    def begin(self, above: str, passage: Passage) -> str:
        """Take a stack whose first lines are cut off, if it is that of a main thread."""
        if above == passage.text:
            return self._bare(passage)
        lines = above.rstrip().split("\n")
        first = len(lines)
        while first and lines[first - 1][:4].isspace() and _frame(lines[first - 1].strip()):
            first -= 1
        frames = _parse("\n".join(lines[first:])).frames
        if len(frames) < LEAST_REST or outermost(frames) != "<module>":
            return above
        line = passage.line(0) + first
        self._begin(line)
        self.threads.append(Thread(frames=frames, name=MAIN, line=line))
        return "\n".join(lines[:first])

    def _bare(self, passage: Passage) -> str:
        """Take stacks of which nothing but the frames was pasted, each that of a process."""
        end = 0
        for block in _BARE.finditer(passage.text):
            self.between(passage.text[end : block.start()])
            line, end = passage.line(block.start()), block.end()
            self._begin(line)
            self.threads.append(Thread(frames=_parse(block[0]).frames, name=MAIN, line=line))
        return passage.text[end:]

    def take(self, head: Head, below: str, line: int) -> str:
        """Take a thread, or what a line says of a process."""
        if head["parent"]:
            if self._open is not None:
                self._open = replace(self._open, parent=int(head["pid"]))
        elif head["pid"]:
            self._begin(line, int(head["pid"]), _COMMAND_NOTE.sub("", head["command"]).strip())
            body = _parse(below)  # the line of its thread may be left out
            if body.frames:
                self._add(Thread(frames=body.frames, name=MAIN, line=line), body, tid_is_pid=False)
                return body.rest
        elif head["state"]:
            body = _body(below) if len(below) <= _CACHED_LENGTH else _parse(below)
            tid = head["tid"]  # not there, where a person took it out
            is_hexadecimal = tid is None or tid.startswith("0x")
            thread = Thread(
                frames=body.frames,
                name=head["name"],
                tid=int(tid, 16 if is_hexadecimal else 10) if tid else None,
                active=head["state"] == "active",
                holds_gil=head["gil"] is not None,
                line=line,
            )
            # As a decimal number it is the kernel's: the main thread's is the pid.
            self._add(thread, body, tid_is_pid=not is_hexadecimal)
            return body.rest
        return below

    def _begin(self, line: int, pid: int | None = None, command: str | None = None) -> None:
        self.end_process()
        self._open = ProcessStacks(threads=(), line=line, who=Who(pid=pid), command=command)
        self.heading_is_used = True

    def _add(self, thread: Thread, body: _Body, *, tid_is_pid: bool) -> None:
        """Add a thread to its process, or begin one that no process line names."""
        is_main = _is_main(thread)
        if self._open is None or (is_main and any(map(_is_main, self.threads))):
            self._begin(thread.line or 1, thread.tid if is_main and tid_is_pid else None)
        self.threads.append(thread)
        self._calls += (replace(call, line=thread.line) for call in body.calls)
        if self._who is NOBODY:
            self._who = body.who
        if body.frames and self._without_stack:
            self._share(body.frames)

    def _share(self, frames: tuple[Frame, ...]) -> None:
        """Give a stack to the main threads that stand above it without one."""
        for number in self._without_stack if len(self.threads) == 1 else ():
            above = self.processes[number]
            threads = (replace(above.threads[0], frames=frames),)
            self.processes[number] = replace(above, threads=threads)
        self._without_stack.clear()

    def end_process(self, *, main_only: bool = False) -> None:
        """End the process that is open, if one is."""
        process, self._open = self._open, None
        threads, self.threads = self.threads, []
        calls, self._calls = self._calls, []
        who, self._who = self._who, NOBODY
        if process is None or not threads:
            return
        if len(threads) == 1 and _is_main(threads[0]) and not threads[0].frames:
            self._without_stack.append(len(self.processes))
        pid = process.who.pid
        if pid is not None or process.command is not None:
            who = join(process.who, launched.who_by_command(process.command or ""), who)
        # Before version 0.3 py-spy told no names.
        is_named = any(thread.name is not None or thread.tid == pid for thread in threads)
        self.keep(
            replace(
                process,
                who=who,
                threads=tuple(threads) if is_named else name_main(threads),
                calls=tuple(calls),
                main_only=main_only,
            )
        )

    def end_section(self) -> None:
        """End the process and the section that are open."""
        self.end_process()
        self.processes = launched.by_order(self.processes)
        super().end_section()
        self._without_stack.clear()


def _is_main(thread: Thread) -> bool:
    if thread.name is not None:
        return thread.name == MAIN
    return outermost(thread.frames) == "<module>"


READER = _PyspyText(name="py-spy text", tool="py-spy", marks=PYSPY, sections=_Pyspy)


@functools.lru_cache(maxsize=1 << 14)
def _body(text: str) -> _Body:
    return _parse(text)


def _parse(text: str) -> _Body:
    """Take the frames off the front of a text, with the locals under them."""
    frames: list[Frame] = []
    ranks: list[Who] = []
    variables: dict[int, dict[str, str]] = {}  # by the place of their frame
    indent: int | None = None
    group = ""  # "Arguments:" or "Locals:"
    rest: list[str] = []
    lines = text.split("\n")
    for number, line in enumerate(lines):
        bare = line.strip()
        if not bare and not frames:
            continue
        depth = len(line) - len(line.lstrip(" \t>|"))
        if not bare or indent is None or depth <= indent:
            made = _frame(bare.lstrip(">| \t"))
            if made is None:
                rest = lines[number:]
                break
            indent = depth
            frames.append(made)
            group = ""
        elif bare in ("Arguments:", "Locals:"):
            group = bare
        elif group:
            name, _, value = bare.partition(": ")
            variables.setdefault(len(frames) - 1, {})[name] = value
            is_argument = group == "Arguments:"
            who = launched.who_by_local(name, value, frames[-1], is_argument=is_argument)
            if who is not NOBODY:
                ranks.append(who)
    return _Body(
        frames=shared(tuple(frames)),
        who=launched.agreed(ranks),
        calls=peers.calls_on(frames, variables),
        rest="\n".join(rest),
    )


def _frame(text: str) -> Frame | None:
    """Read ``function (file:line)``; native frames have no line, or one in a C source."""
    text = _NOTE.sub("", text).removeprefix("... ")
    if other := _FAULTHANDLERS_FRAME.fullmatch(text):
        return frame(other["function"], other["file"], int(other["line"]))
    function, opened, place = text.rpartition(" (")
    if not opened or not place.endswith(")") or not function:
        return None
    file, colon, digits = place[:-1].rpartition(":")
    if colon and digits.isdecimal() and len(digits) <= _LONGEST_NUMBER:
        return frame(function, file, int(digits), native=is_native_file(file))
    file = place[:-1]
    if not file or " " in file.strip():
        return None
    return frame(function, file, None, native=is_native_file(file))

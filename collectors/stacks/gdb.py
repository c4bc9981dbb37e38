r"""gdb: ``thread apply all bt``, ``bt``, ``where``, with and without ``py-bt``.

A thread begins with ``Thread 3 (Thread 0x7f… (LWP 4711) "name"):``; frames are
``#4  0x… in function (arguments) at file:line``, or ``from library``, innermost first. Thread 1
is the main thread and its LWP the pid. Old scripts and mail programs wrap lines, so a frame
goes on until the next one. ``py-bt`` (CPython's python-gdb.py) prints
``Traceback (most recent call first):`` per thread; of such a thread the native frames down to
the interpreter's, then the Python frames are kept. ``bt`` with python-gdb.py before 3.11 names
the Python frame in the interpreter's own ("Frame 0x…, for file x.py, line 3, in f ()").
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from whyhang.analyzer.model import NOBODY, Fact, Frame, Record, Thread, Who, replace
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.stacks import heading as stack_heading
from whyhang.collectors.stacks import owner as stack_owner
from whyhang.collectors.stacks import text as stack_text
from whyhang.collectors.stacks.heading import Heading
from whyhang.collectors.stacks.owner import Found
from whyhang.collectors.stacks.text import Passage

_HEAD = re.compile(
    r"^[ \t>|]*(?:"
    r"Thread (?P<number>\d{1,6}) \([^\n]*?(?:LWP|process) (?P<lwp>\d{1,10})\)?"
    r'(?: "(?P<name>[^"\n]*)")?[^\n]*'
    r"|(?:Attaching to |\[Inferior \d+ \()(?:program: [^\n]*, )?process (?P<pid>\d{1,10})[^\n]*"
    r"|Attaching to process (?P<pid2>\d{1,10})[^\n]*"
    r"|(?P<bare>#0 [ ]?(?=[^\n]*(?: in |\())[^\n]*)"
    r"|(?P<python>Traceback \(most recent call first\):)[^\n]*"
    r")$",
    re.MULTILINE,
)
_START = re.compile(r"[ \t>|]*#(\d{1,5}) +(.*)")
_TAIL = re.compile(r"(?:at |from |in )?\S")
_PLACE = re.compile(r" at ([^\s()]+):(\d{1,7})$")
_LIBRARY = re.compile(r" from (\S+)$")
_ADDRESS = re.compile(r"0x[0-9a-f]+ in ")
_IN_PYTHON = re.compile(r"Frame 0x[0-9a-f]+, for file ([^,\n]+), line (\d{1,7}), in ([^\s(]+) \(")
_PYTHON = re.compile(r'[ \t>|]*File "([^"\n]*)", line (\d{1,7}), in (\S+)')
_SETTING = re.compile(r"\s+[\w.<>]+ = |\s*No locals\.")
_END = re.compile(r"\s*$|\(gdb\)|\[Inferior|Detaching|Quit|\+|---|A debugging session|Undefined")

# Frames of the interpreter itself, between one Python function and the next. Not those that
# take or give back the GIL, which say what a thread waits for.
_INTERPRETER = (
    "_PyEval_", "PyEval_Eval", "_PyObject_", "PyObject_Call", "PyObject_Vectorcall",
    "_PyFunction_", "_PyVectorcall", "PyVectorcall", "method_vectorcall", "cfunction_",
    "vectorcall_", "call_function", "do_call_core", "function_code_fastcall", "slot_tp_call",
    "type_call", "_PyMethodDef", "_PyCFunction", "PyCFunction_Call", "object_vacall",
)  # fmt: skip
_EVAL = ("_PyEval_EvalFrame", "PyEval_EvalFrame")


class _Gdb:
    """Reads back traces that gdb printed."""

    name = "gdb"

    def sniff(self, document: Document) -> bool:
        return stack_text.holds(document, stack_text.GDB)

    def read(self, document: Document) -> Iterator[Fact]:
        for passage in stack_text.passages(document, stack_text.GDB):
            for section, found in _Reading(passage).sections():
                yield from stack_owner.dumps(document, passage, "gdb", section, found)


READER: Reader = _Gdb()


class _Body(Record):
    native: tuple[Frame, ...] = ()
    python: tuple[Frame, ...] = ()
    waits_for_gil: bool = False
    rest: str = ""


class _Part(Record):
    """One thread as one command printed it."""

    number: int | None
    lwp: int | None
    name: str | None
    line: int
    body: _Body


class _Reading:
    """Goes through the text head by head."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage
        self._parts: list[_Part] = []
        self._pid: int | None = None
        self._heading = Heading()
        self._found: list[Found] = []

    def sections(self) -> Iterator[tuple[Who, list[Found]]]:
        text = self._passage.text
        heads = list(_HEAD.finditer(text))
        yield from self._heed(text[: heads[0].start()] if heads else "")
        thread: re.Match[str] | None = None
        for number, head in enumerate(heads):
            end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
            if head["number"]:
                thread = head
            elif pid := head["pid"] or head["pid2"]:
                thread = None
                self._process(int(pid), opens="Attaching" in head[0])
            start = head.start() if head["bare"] or head["python"] else head.end()
            body = _body(text[start:end])
            if body.native or body.python:
                self._part(thread, head, body)
            if number + 1 < len(heads):
                yield from self._heed(body.rest)
        yield from self._flush()

    def _process(self, pid: int, *, opens: bool) -> None:
        """Heed gdb's words on attaching to a process, and on letting it go."""
        if opens or (self._pid is not None and self._pid != pid):
            self._close()
        self._pid = pid
        if not opens:
            self._close()

    def _part(self, thread: re.Match[str] | None, head: re.Match[str], body: _Body) -> None:
        number = int(thread["number"]) if thread else None
        lwp = int(thread["lwp"]) if thread else None
        if self._begins_process(number, lwp, body):
            self._close()
        part = _Part(
            number=number,
            lwp=lwp,
            name=thread["name"] if thread else None,
            line=self._passage.line((thread or head).start()),
            body=body,
        )
        self._parts.append(part)

    def _begins_process(self, number: int | None, lwp: int | None, body: _Body) -> bool:
        """Tell the first thread of another process, or of another look at this one.

        gdb numbers threads from 1 and lists them from the last to the first, or upwards.
        """
        if not self._parts:
            return False
        same = [part for part in self._parts if part.lwp == lwp and part.number == number]
        if same:
            return any(bool(part.body.native) == bool(body.native) for part in same)
        if number is None or lwp is None:
            return True
        upwards = self._parts[0].number == 1
        seen_first = any(part.number == 1 for part in self._parts)
        return seen_first and not (upwards and number == (self._parts[-1].number or 0) + 1)

    def _close(self) -> None:
        parts, self._parts = self._parts, []
        pid, self._pid = self._pid, None
        if not parts:
            return
        threads: dict[int | None, Thread] = {}
        for lwp in dict.fromkeys(part.lwp for part in parts):
            threads[lwp] = _thread([part for part in parts if part.lwp == lwp])
        if pid is None:
            pid = next((part.lwp for part in parts if part.number == 1), None)
        named = tuple(
            replace(thread, name=stack_owner.MAIN) if lwp is None or lwp == pid else thread
            for lwp, thread in threads.items()
        )
        self._found.append(
            Found(
                who=Who(pid=pid) if pid is not None else NOBODY,
                threads=named,
                line=parts[0].line,
                main_only=len(named) == 1 and named[0].name == stack_owner.MAIN,
                copies=self._heading.copies,
                ranks=self._heading.ranks,
            )
        )

    def _heed(self, rest: str) -> Iterator[tuple[Who, list[Found]]]:
        if not rest or rest.isspace():
            return
        for said in stack_heading.above(rest):
            same = not self._found and not self._parts
            yield from self._flush()
            self._heading = self._heading.then(said, same=same)

    def _flush(self) -> Iterator[tuple[Who, list[Found]]]:
        self._close()
        if self._found:
            yield self._heading.who, self._found
            self._found = []


def _thread(parts: list[_Part]) -> Thread:
    """Join what bt and py-bt printed of one thread."""
    native = next((part.body.native for part in parts if part.body.native), ())
    python = next((part.body.python for part in parts if part.body.python), ())
    first = parts[0]
    return Thread(
        frames=_merged(native, python),
        name=next((part.name for part in parts if part.name), None),
        tid=first.lwp,
        holds_gil=False if any(part.body.waits_for_gil for part in parts) else None,
        line=first.line,
    )


@functools.lru_cache(maxsize=1 << 14)
def _merged(native: tuple[Frame, ...], python: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Give the native frames down to the interpreter's, then the Python ones."""
    if not python:
        return tuple(f for f in native if not f.native or not f.function.startswith(_INTERPRETER))
    inner: list[Frame] = []
    for frame in native:
        if not frame.native or frame.function.startswith(_EVAL):
            break
        if not frame.function.startswith(_INTERPRETER):
            inner.append(frame)
    return (*inner, *python)


@functools.lru_cache(maxsize=1 << 14)
def _body(text: str) -> _Body:
    """Read the frames at the beginning of a text, and give what comes after them."""
    native: list[Frame] = []
    python: list[Frame] = []
    waits = False
    open_: str | None = None
    lines = text.split("\n")
    rest = ""
    for number, line in enumerate(lines):
        if found := _START.match(line):
            native += _frames(open_)
            open_ = found[2].rstrip()
        elif found := _PYTHON.match(line):
            python.append(stack_text.frame(found[3], found[1], int(found[2])))
        elif "(most recent call first)" in line or _SETTING.match(line):
            continue
        elif python and line.startswith((" ", "\t")):
            waits = waits or "Waiting for the GIL" in line
        elif not line.strip():
            native += _frames(open_)
            open_ = None
        elif open_ is not None and not _END.match(line):
            open_ += " " + line.strip(" \t>|")
        elif native or python or open_ is not None:
            rest = "\n".join(lines[number:])
            break
        elif number > 0:
            rest += line + "\n"
            waits = waits or "Waiting for the GIL" in line
    native += _frames(open_)
    return _Body(
        native=stack_text.shared(tuple(native)),
        python=stack_text.shared(tuple(python)),
        waits_for_gil=waits,
        rest=rest,
    )


def _frames(text: str | None) -> list[Frame]:
    """Read one whole frame; an interpreter's frame may name the Python function it runs."""
    if text is None:
        return []
    text = " ".join(text.split())
    text = _ADDRESS.sub("", text, count=1) if _ADDRESS.match(text) else text
    if found := _IN_PYTHON.search(text):
        return [stack_text.frame(found[3], found[1], int(found[2]))]
    if text.startswith("<"):  # <signal handler called>
        return []
    file, line = "", None
    if found := _PLACE.search(text):
        file, line, text = found[1], int(found[2]), text[: found.start()]
    elif found := _LIBRARY.search(text):
        file, text = found[1], text[: found.start()]
    name = _without_arguments(text.strip())
    return [stack_text.frame(name, file, line, native=True)] if name else []


def _without_arguments(text: str) -> str:
    """Cut the argument list, the last parenthesis that gdb prints, with what is nested in it."""
    if not text.endswith(")"):
        return text.partition(" (")[0]
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        if text[at] == ")":
            depth += 1
        elif text[at] == "(":
            depth -= 1
            if depth == 0:
                return text[:at].rstrip()
    return text.partition(" (")[0]

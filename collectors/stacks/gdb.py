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
import itertools
import re

from whyhang.analyzer.model import NOBODY, Frame, Record, Thread, Who
from whyhang.collectors import limits
from whyhang.collectors.stacks.frames import frame, shared
from whyhang.collectors.stacks.main_thread import MAIN
from whyhang.collectors.stacks.passages import GDB
from whyhang.collectors.stacks.reader import StackText
from whyhang.collectors.stacks.sections import Head, ProcessStacks, Sections

_HEAD = limits.compile(
    r"^[ \t>|]*+(?:"
    r"Thread (?P<number>\d{1,6}) \([^\n]*?(?:LWP|process) (?P<lwp>\d{1,10})\)?"
    r'(?: "(?P<name>[^"\n]*)")?[^\n]*'
    r"|(?:(?P<attached>Attaching to )|\[Inferior \d+ \()(?:program: [^\n]*, )?"
    r"process (?P<pid>\d{1,10})[^\n]*"
    r"|(?P<bare>#0 [ ]?(?=[^\n]*(?: in |\())[^\n]*)"
    r"|(?P<python>Traceback \(most recent call first\):)[^\n]*"
    r")$",
    re.MULTILINE,
)
_START = re.compile(r"[ \t>|]*#(\d{1,5}) +(.*)")
_SOURCE = re.compile(r" at ([^\s()]+):(\d{1,7})$")
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


class _Body(Record):
    """What stands under a head: the frames of ``bt`` or those of ``py-bt``, and what follows."""

    native: tuple[Frame, ...] = ()
    python: tuple[Frame, ...] = ()
    waits_for_gil: bool = False
    rest: str = ""


class _ThreadPrint(Record):
    """One thread as one command printed it."""

    number: int | None
    lwp: int | None
    name: str | None
    line: int
    body: _Body


class _Gdb(Sections):
    """Joins what ``bt`` and ``py-bt`` print of the threads of a process."""

    head = _HEAD

    def __init__(self) -> None:
        super().__init__()
        self._pid: int | None = None
        self._thread: tuple[Head, int] | None = None  # the last line that names one, and where
        self._prints: dict[int | None, list[_ThreadPrint]] = {}  # by lwp
        self._first: int | None = None  # number of the thread that was printed first, and last
        self._last: int | None = None
        self._has_thread_1 = False

    def take(self, head: Head, below: str, line: int) -> str:
        """Take what one command prints of a thread, or that gdb attaches to a process."""
        if head["number"]:
            self._thread = (head, line)
        elif head["pid"]:
            self._thread = None
            self._attach(int(head["pid"]), ends=not head["attached"])
        body = _body(head[0] + below if head["bare"] or head["python"] else below)
        if body.native or body.python:
            named, line = self._thread or (None, line)
            self._add_print(
                _ThreadPrint(
                    number=int(named["number"]) if named else None,
                    lwp=int(named["lwp"]) if named else None,
                    name=named["name"] if named else None,
                    line=line,
                    body=body,
                )
            )
        return body.rest

    def _attach(self, pid: int, *, ends: bool) -> None:
        """Heed what gdb says on attaching to a process, and on letting it go."""
        if not ends or self._pid not in {None, pid}:
            self.end_process()
        self._pid = pid
        if ends:
            self.end_process()

    def _add_print(self, new: _ThreadPrint) -> None:
        if self._prints and self._begins_process(new):
            self.end_process()
        if not self._prints:
            self._first, self._has_thread_1 = new.number, False
        self._last = new.number
        self._has_thread_1 |= new.number == 1
        self._prints.setdefault(new.lwp, []).append(new)

    def _begins_process(self, new: _ThreadPrint) -> bool:
        """Tell the first thread of another process, or of another look at this one.

        gdb numbers threads from 1 and lists them from the last to the first, or upwards.
        """
        same = [old for old in self._prints.get(new.lwp, ()) if old.number == new.number]
        if same:
            return any(bool(old.body.native) == bool(new.body.native) for old in same)
        if new.number is None or new.lwp is None:
            return True
        is_next = self._first == 1 and new.number == (self._last or 0) + 1
        return self._has_thread_1 and not is_next

    def end_process(self, *, main_only: bool = False) -> None:
        """End the process that is open, if one is."""
        prints, self._prints = self._prints, {}
        pid, self._pid = self._pid, None
        if not prints:
            return
        if pid is None:
            first = (old.lwp for same in prints.values() for old in same if old.number == 1)
            pid = next(first, None)
        threads = [_thread(same, pid) for same in prints.values()]
        self.keep(
            ProcessStacks(
                who=Who(pid=pid) if pid is not None else NOBODY,
                threads=tuple(threads),
                line=threads[0].line or 1,
                main_only=main_only or [thread.name for thread in threads] == [MAIN],
            )
        )


READER = StackText(name="gdb", tool="gdb", marks=GDB, sections=_Gdb)


def _thread(prints: list[_ThreadPrint], pid: int | None) -> Thread:
    """Join what bt and py-bt printed of one thread."""
    native = next((old.body.native for old in prints if old.body.native), ())
    python = next((old.body.python for old in prints if old.body.python), ())
    lwp = prints[0].lwp
    is_main = lwp is None or lwp == pid
    return Thread(
        frames=_merged(native, python),
        name=MAIN if is_main else next((old.name for old in prints if old.name), None),
        tid=lwp,
        holds_gil=False if any(old.body.waits_for_gil for old in prints) else None,
        line=prints[0].line,
    )


@functools.lru_cache(maxsize=1 << 14)
def _merged(native: tuple[Frame, ...], python: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Give the native frames down to the interpreter's, then the Python ones."""
    if not python:
        return tuple(f for f in native if not f.native or not f.function.startswith(_INTERPRETER))
    inner = itertools.takewhile(lambda f: f.native and not f.function.startswith(_EVAL), native)
    return (*(f for f in inner if not f.function.startswith(_INTERPRETER)), *python)


@functools.lru_cache(maxsize=1 << 14)
def _body(text: str) -> _Body:
    """Read the frames at the beginning of a text, and give what comes after them."""
    native: list[Frame] = []
    python: list[Frame] = []
    waits_for_gil = False
    wrapped = ""  # the native frame that is open, which may go on in the next line
    rest = ""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if start := _START.match(line):
            native += _native(wrapped)
            wrapped = start[2].rstrip()
        elif parts := _PYTHON.match(line):
            python.append(frame(parts[3], parts[1], int(parts[2])))
        elif "(most recent call first)" in line or _SETTING.match(line):
            continue
        elif python and line.startswith((" ", "\t")):
            waits_for_gil = waits_for_gil or "Waiting for the GIL" in line
        elif not line.strip():
            native += _native(wrapped)
            wrapped = ""
        elif wrapped and not _END.match(line):
            wrapped += " " + line.strip(" \t>|")
        elif native or python or wrapped:
            rest = "\n".join(lines[number:])
            break
        elif number > 0:
            rest += line + "\n"
            waits_for_gil = waits_for_gil or "Waiting for the GIL" in line
    native += _native(wrapped)
    return _Body(
        native=shared(tuple(native)),
        python=shared(tuple(python)),
        waits_for_gil=waits_for_gil,
        rest=rest,
    )


def _native(text: str) -> list[Frame]:
    """Read one whole frame; an interpreter's frame may name the Python function it runs."""
    text = " ".join(text.split())
    if address := _ADDRESS.match(text):
        text = text[address.end() :]
    if python := _IN_PYTHON.search(text):
        return [frame(python[3], python[1], int(python[2]))]
    if text.startswith("<"):  # <signal handler called>
        return []
    file, line = "", None
    if source := _SOURCE.search(text):
        file, line, text = source[1], int(source[2]), text[: source.start()]
    elif library := _LIBRARY.search(text):
        file, text = library[1], text[: library.start()]
    name = _without_arguments(text.strip())
    return [frame(name, file, line, native=True)] if name else []


def _without_arguments(text: str) -> str:
    """Cut the argument list, the last parenthesis that gdb prints, with what is nested in it."""
    depth = 0
    for at in range(len(text) - 1, -1, -1) if text.endswith(")") else ():
        if text[at] == ")":
            depth += 1
        elif text[at] == "(":
            depth -= 1
            if depth == 0:
                return text[:at].rstrip()
    return text.partition(" (")[0]

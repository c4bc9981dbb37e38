r"""gdb: ``thread apply all bt``, ``bt``, ``where``, with and without ``py-bt``; lldb and eu-stack.

A thread begins with ``Thread 3 (Thread 0x7f… (LWP 4711) "name"):``; frames are
``#4  0x… in function (arguments) at file:line``, or ``from library``, innermost first. Thread 1
is the main thread and its LWP the pid. Old scripts and mail programs wrap lines, so a frame
goes on until the next one. Debuggers of MPI jobs list frames outermost first, by the same numbers,
with the address behind. ``py-bt`` (CPython's python-gdb.py) prints
``Traceback (most recent call first):`` per thread; of such a thread the native frames down to
the interpreter's, then the Python frames are kept. ``bt`` with python-gdb.py before 3.11 names
the Python frame in the interpreter's own ("Frame 0x…, for file x.py, line 3, in f ()"). People
who tidy a Python stack up write ``#0 function  file.py:line``.

elfutils' ``eu-stack -p PID`` heads threads with ``TID 4711:`` below ``PID 4711 - process``, and has
``#1  0x… function - library`` (the library with ``-m``). lldb's ``thread backtrace all`` has
``* thread #1, name = 'python'`` and ``frame #1: 0x… library`function(arguments) at file:line:col``.
On attaching, lldb prints the innermost frame of each thread alone: that is no stack.
"""

import functools
import itertools
import re

from whyhang.analyzer.facts import NOBODY, Frame, Record, Thread, Who, replace
from whyhang.collectors import limits
from whyhang.collectors.stacks.frames import MAIN, frame, shared
from whyhang.collectors.stacks.passages import GDB
from whyhang.collectors.stacks.reader import StackText
from whyhang.collectors.stacks.sections import Head, ProcessStacks, Sections

_HEAD = limits.compile(
    r"^[ \t>|]*+(?:"
    r"Thread (?P<number>\d{1,6}) \([^\n]*?(?:LWP|process) (?P<lwp>\d{1,10})\)?"
    r'(?: "(?P<name>[^"\n]*)")?[^\n]*'
    r"|(?:(?P<attached>Attaching to )|\[Inferior \d+ \()(?:program: [^\n]*, )?"
    r"process (?P<pid>\d{1,10})[^\n]*"
    r"|TID (?P<tid>\d{1,10}):|(?:PID|Process) (?P<begun>\d{1,10})(?: - [^\n]*| stopped)"
    r"|\*? *thread #(?P<place>\d{1,6})(?:, name = '(?P<called>[^'\n]*)')?[^\n]*"
    r"(?=\n[^\n]*frame #0: [^\n]*\n[^\n]*frame #1: )"
    # A stack whose innermost frames were left out, or come last, begins below a heading.
    r"|(?P<unmarked>0 {1,3}0x[0-9a-f]{6,16} in [^\n]*)(?=(?:(?!\n\d)[^\0]){0,400}?\n1 {1,3}0x)"
    r"|(?P<bare>(?:(?<!\n#[1-9] [^\n]{1,400}\n)#0 "
    r"|(?<=(?::|[=*-]{3})[ \t]{0,4}\n(?:\.{3}\n)?)#\d{1,3} )[ ]?"
    r"(?=[^\n]*(?: in |\(|<sig)|(?:(?! from )[^\n])*\n#1 )[^\n]*)"
    r"|(?P<python>Traceback \(most recent call first\):)[^\n]*"
    r")$",
    re.MULTILINE,
)
# The mark in front of a number gets lost where a page takes it for that of a heading.
_START = re.compile(r"[ \t>|*]*(?:(?:frame )?#(?=\d)|(?=\d{1,3} +0x[0-9a-f]{6}))(\d{1,5}):? +(.*)")
_SOURCE = re.compile(r" at ([^\s()]+?):(\d{1,7})(?::\d{1,5})?$")
_LIBRARY = re.compile(r" (?:from|-) (\S+)$")
_ADDRESS = re.compile(r"0x[0-9a-f]+(?: in | (?!in )|$)")
_IN_LIBRARY = re.compile(r"(\S+?)`(?:[^`]* \[inlined\] )?([^`]*?)(?: \+ \d+)?$")

_BEHIND = re.compile(r" \(at 0x[0-9a-f]+\)$")
_IN_COLUMNS = re.compile(r"([\w.<>]+) ([^\s:()]+\.pyx?):(\d{1,7})(?=$| )")
_IN_PYTHON = re.compile(r"Frame 0x[0-9a-f]+, for file ([^,\n]+), line (\d{1,7}), in ([^\s(]+) \(")
_PYTHON = re.compile(r'[ \t>|]*File "([^"\n]*)", line (\d{1,7}), in (\S+)')
_SETTING = re.compile(r"\s+[\w.<>]+ = |\s*No locals\.")
_END = re.compile(
    r"\s*$|\((?:gdb|lldb)\)|\[Inferior|Detaching|Quit|\+|---|===|\*\*\*|\.{3}$"
    r"|A debugging session|Undefined"
    r"|[$#] \w|\[?[\w.-]+@[\w.-]+[ :][^\n]{0,80}[$#] |(?i:pid|rank)[ :#]{1,2}\d+\W*$"  # the next
)

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


class _Gdb(Sections):
    """Joins what ``bt`` and ``py-bt`` print of the threads of a process."""

    head = _HEAD

    def __init__(self) -> None:
        super().__init__()
        self._pid: int | None = None
        # The last line that names a thread: its number by gdb's count, and the thread.
        self._named: tuple[int | None, Thread] | None = None
        self._numbers: list[int | None] = []  # of the threads, by gdb's count
        self._stacks: dict[tuple[int | None, int | None], tuple[Thread, _Body]] = {}

    def take(self, head: Head, below: str, line: int) -> str:
        """Take what one command prints of a thread, or that gdb attaches to a process."""
        if head["number"] or head["tid"] or head["place"]:
            name, lwp = head["name"] or head["called"], head["lwp"] or head["tid"]
            number = head["number"] or head["place"]
            thread = Thread(frames=(), name=name, tid=int(lwp) if lwp else None, line=line)
            self._named = (int(number) if number else None, thread)
        elif head["begun"]:
            self._named = None
            self._attach(int(head["begun"]), ends=False)
            return ""  # lldb's list of innermost frames is no stack
        elif head["pid"]:
            self._named = None
            self._attach(int(head["pid"]), ends=not head["attached"])
        begun = head["bare"] or head["python"] or head["unmarked"]
        body = _body(head[0] + below if begun else below)
        if body.native or body.python:
            self._add(*(self._named or (None, Thread(frames=(), line=line))), body)
        return body.rest

    def _attach(self, pid: int, *, ends: bool) -> None:
        """Heed what gdb says on attaching to a process, and on letting it go."""
        if not ends or self._pid not in {None, pid}:
            self.end_process()
        self._pid = pid
        if ends:
            self.end_process()

    def _add(self, number: int | None, thread: Thread, body: _Body) -> None:
        """Add what one command printed of a thread, or join it with what another did."""
        key = (number, thread.tid)
        if key == (None, None) and key in self._stacks:
            _, shown = self._stacks[key]
            if len(shown.native) == 1 and shown.native == body.native[:1]:
                del self._stacks[key]  # where gdb says that it has stopped, above the whole stack
                self._numbers.pop()
        if self._begins_process(number, thread.tid, body):
            self.end_process()
        if key in self._stacks:
            thread, other = self._stacks[key]
            body = _Body(
                native=other.native or body.native,
                python=other.python or body.python,
                waits_for_gil=other.waits_for_gil or body.waits_for_gil,
            )
        else:
            self._numbers.append(number)
        self._stacks[key] = (thread, body)

    def _begins_process(self, number: int | None, lwp: int | None, body: _Body) -> bool:
        """Tell the first thread of another process, or of another look at this one.

        gdb numbers threads from 1 and lists them from the last to the first, or upwards.
        """
        if not self._stacks:
            return False
        if (number, lwp) in self._stacks:
            _, other = self._stacks[number, lwp]
            return bool(other.native and body.native) or bool(other.python and body.python)
        if number is None:
            return lwp is None
        is_upwards = self._numbers[0] == 1
        return number - 1 != self._numbers[-1] if is_upwards else self._numbers[-1] == 1

    def end_process(self, *, main_only: bool = False) -> None:
        """End the process that is open, if one is."""
        stacks, self._stacks = self._stacks, {}
        pid, self._pid = self._pid, None
        self._numbers.clear()
        if not stacks:
            return
        if pid is None:
            pid = next((lwp for number, lwp in stacks if number == 1), None)
        threads = tuple(
            replace(
                thread,
                frames=_merged(body.native, body.python),
                name=MAIN if lwp == pid or (lwp is None and number in {None, 1}) else thread.name,
                holds_gil=False if body.waits_for_gil else None,
            )
            for (number, lwp), (thread, body) in stacks.items()
        )
        self.keep(
            ProcessStacks(
                who=Who(pid=pid) if pid is not None else NOBODY,
                threads=threads,
                line=threads[0].line or 1,
                main_only=main_only or [thread.name for thread in threads] == [MAIN],
            )
        )


READER = StackText(name="gdb", tool="gdb", marks=GDB, sections=_Gdb)


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
    places: list[int] = []  # of the native frames, as numbered there
    for number, line in enumerate(lines):
        if start := _START.match(line):
            native += _native(wrapped)
            wrapped = start[2].rstrip()
            places.append(int(start[1]))
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
    outermost_first = len(places) > 1 and places[0] > places[1]
    return _Body(
        native=shared(tuple(reversed(native) if outermost_first else native)),
        python=shared(tuple(python)),
        waits_for_gil=waits_for_gil,
        rest=rest,
    )


def _native(text: str) -> list[Frame]:
    """Read one whole frame; an interpreter's frame may name the Python function it runs."""
    text = _BEHIND.sub("", " ".join(text.split()))
    if address := _ADDRESS.match(text):
        text = text[address.end() :]
    if python := _IN_PYTHON.search(text):
        return [frame(python[3], python[1], int(python[2]))]
    if columns := _IN_COLUMNS.match(text):
        return [frame(columns[1], columns[2], int(columns[3]))]
    if text.startswith("<"):
        is_handler = text.startswith("<signal handler called>")
        return [frame("<signal handler called>", "", native=True)] if is_handler else []
    file, line = "", None
    if source := _SOURCE.search(text):
        file, line, text = source[1], int(source[2]), text[: source.start()]
    elif library := _LIBRARY.search(text):
        file, text = library[1], text[: library.start()]
    if inside := _IN_LIBRARY.match(text):
        file, text = file or inside[1], inside[2]
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

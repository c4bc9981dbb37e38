"""Stack dumps: frames and threads of one process at one moment."""

from collections.abc import Sequence
from itertools import chain

from whyhang.analyzer.facts.base import Record, Sourced


class Frame(Record):
    """One stack frame. ``file`` is the path as printed; ``native`` frames are C or C++."""

    function: str
    file: str
    line: int | None = None
    native: bool = False

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{self.function} ({place})"


class Thread(Record):
    """One thread of a stack dump. ``active`` is py-spy's guess of "on the CPU"."""

    frames: tuple[Frame, ...]
    name: str | None = None
    tid: int | None = None
    active: bool | None = None
    holds_gil: bool | None = None
    line: int | None = None  # where the thread starts in the source


SUMMARY = "summary"
"""The tool of a stack that a person wrote down."""


class StackDump(Sourced):
    """The stacks of one process at one moment.

    ``look`` counts the dumps of one process in time (0, 1, …). ``main_only``: the text shows
    the main thread alone, so the absence of other threads says nothing. ``copies``: the
    source says that so many processes stood there ("6 processes are in:").
    """

    tool: str  # "py-spy", "faulthandler", "gdb", "pystack", "traceback", "exception"
    threads: tuple[Thread, ...]
    look: int = 0
    taken_at: float | None = None
    command: str | None = None  # command line of the process
    main_only: bool = False
    copies: int = 1


def main_thread(dump: StackDump) -> Thread | None:
    """Return the main thread of a dump."""
    return main_of(dump.threads, dump.who.pid)


def main_of(threads: Sequence[Thread], pid: int | None) -> Thread | None:
    """Return the main thread: its id is the pid, it is called so, or it runs the program.

    Tools that print neither (faulthandler) still show the program's ``<module>`` as the
    outermost frame, and other Python threads as started by ``threading``.
    """

    def outermost(thread: Thread) -> Frame | None:
        return next((frame for frame in reversed(thread.frames) if not frame.native), None)

    by_pid = (t for t in threads if pid is not None and t.tid == pid)
    by_name = (t for t in threads if t.name == "MainThread")
    runs = {"<module>", "_run_module_as_main"}
    program = (t for t in threads if (f := outermost(t)) and f.function in runs)
    unstarted = (t for t in threads if (f := outermost(t)) and not f.file.endswith("threading.py"))
    return next(chain(by_pid, by_name, program, unstarted, threads), None)

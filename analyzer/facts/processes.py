"""What /proc tells of the processes of a job."""

from __future__ import annotations

import enum
import posixpath
import re

from whyhang.analyzer.facts.base import Record, Sourced


class Role(enum.Enum):
    """What a process does for its job."""

    RANK = "rank"
    LAUNCHER = "launcher"
    DATALOADER_WORKER = "dataloader-worker"
    COMPILE_WORKER = "compile-worker"
    RESOURCE_TRACKER = "resource-tracker"
    OTHER = "other"


SWITCHES_PER_PAUSE = 2
"""Times that a pause sends each thread of a process to sleep: when it stops, and afterwards."""


class Counters(Record):
    """What the kernel counted for one thread since it started.

    ``cpu_ticks`` is user plus system time in clock ticks; ``switches`` counts voluntary context
    switches: how often it went to sleep. Equal before and after an interval: it did not run.
    """

    cpu_ticks: int
    switches: int


_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*|(?:ba|da|z|k|c|tc)?sh|perl|ruby|node|java")


def program(command: str) -> str:
    """Return the name of what a command line runs: its program, or the script or module of one.

    For a sentence; the whole command line is evidence.
    """
    words = iter(command.split())
    name = posixpath.basename(next(words, "")).rstrip(":")  # nginx: master process
    if _INTERPRETER.fullmatch(name):
        for word in words:
            if word == "-c":
                break
            if word in {"-m", "-jar"}:
                return posixpath.basename(next(words, name))[:40]
            if word in {"-X", "-W"}:
                next(words, "")
            elif not word.startswith("-"):
                return posixpath.basename(word)[:40]
    return name[:40]


class LockWait(Record):
    """A lock on a file that a process waits for, or may, as /proc/locks tells (proc(5)).

    ``holder_pid`` is the process that has the lock: that took it, or inherited the file from who
    did and has closed it since. ``holder`` is its command line, empty where it has ended or cannot
    be seen.
    """

    holder_pid: int
    holder: str = ""
    path: str | None = None


class OtherEnd(Record):
    """The process that has the other end of a pipe or connection at which another one waits."""

    pid: int
    command: str = ""


ENDED_STATES = frozenset({"Z", "X", "x"})
"""States in /proc of a process that has ended, collected by its parent or not (proc(5))."""


class Process(Sourced):
    """What /proc tells of one process at one look.

    ``state`` is the kernel's letter (R, S, D, T, t, Z, X). ``before`` and ``after`` are the
    counters of the main thread just before and just after the stack dump of this look, so
    that the dump itself does not count as movement. ``environ`` is cut to an allow-list.
    ``descriptors`` says what open files point at, folded ("pipe x3", "/data/a.bin"). ``holds``
    are the files on which it has an exclusive lock, as the kernel knows, ``locked_by_others``
    those that it has open and on which another process has one, ``other_end`` is who could end
    the wait of its main thread for data on this host, ``awaits`` the TCP connection at which it
    waits, as ``descriptors`` names it, ``positions`` how far it is in the regular files that it has
    open, in bytes, of which ``only_read`` are those that it does not write. ``asleep_for`` is how
    many seconds before this look its main thread last ran, ``silent_for`` how many before that
    something was written to its standard output or error. ``messages`` changes whenever MPI passes
    a message between ranks of this host. ``pauses`` is how often something else paused it since the
    look before this one: a py-spy, a second whyhang. ``tracer`` is the command line of a debugger,
    ``frozen`` the control group that keeps it from running.
    """

    look: int = 0
    taken_at: float | None = None
    ppid: int | None = None
    role: Role = Role.OTHER
    command: str = ""
    cwd: str | None = None
    state: str | None = None
    wchan: str | None = None
    environ: dict[str, str] = {}
    started_at: float | None = None
    descriptors: tuple[str, ...] = ()
    before: Counters | None = None
    after: Counters | None = None
    tracer_pid: int | None = None  # a debugger is attached
    tracer: str | None = None
    frozen: str | None = None
    threads: tuple[ThreadState, ...] = ()
    owner_pid: int | None = None  # of a helper: the rank process it works for
    lock: LockWait | None = None
    holds: tuple[str, ...] = ()
    locked_by_others: tuple[LockWait, ...] = ()
    other_end: OtherEnd | None = None
    awaits: str | None = None
    positions: dict[str, int] = {}
    only_read: tuple[str, ...] = ()
    asleep_for: float | None = None
    silent_for: float | None = None
    messages: int | None = None
    pauses: int = 0

    @property
    def stopped(self) -> bool:
        """Whether a signal, a debugger or a frozen control group has stopped it."""
        return self.state in {"T", "t"} or self.frozen is not None

    @property
    def dead(self) -> bool:
        """Whether it has ended, collected or not."""
        return self.state in ENDED_STATES


NO_LIMIT = 1e9
"""Seconds that stand for a wait without a limit."""


SHARED_FUTEX = "futex(shared)"
"""The system call of a thread that waits for a lock which processes share."""


class ThreadState(Record):
    """One kernel thread: its id, name, state letter and the kernel function it sleeps in.

    ``syscall`` is the system call it is in, with what its first argument points at where that
    is an open file: "read(5: /mnt/data/a.bin)"; told of the main thread only. ``cpu_ticks`` is
    what it has used since it began, in clock ticks. ``file`` is the file that the call works on,
    ``mount`` what it lies on ("nfs4 from server:/data") or, of a fifo, that it is one. ``kernel``
    is the kernel functions that it is in, innermost first, where it sleeps past any signal and this
    user may know. ``inner`` is the id that it has in a container, by which Python calls it.
    ``limit`` is after how many seconds its wait for data ends at the latest (``NO_LIMIT``: never),
    ``sleeps_for`` for how many seconds more it sleeps. ``woke`` is how often it ran and went to
    sleep again since the look before, but for pauses of the process.
    """

    tid: int
    name: str
    state: str
    wchan: str | None = None
    syscall: str | None = None
    cpu_ticks: int | None = None
    file: str | None = None
    mount: str | None = None
    kernel: tuple[str, ...] = ()
    inner: int | None = None
    limit: float | None = None
    sleeps_for: float | None = None
    woke: int | None = None

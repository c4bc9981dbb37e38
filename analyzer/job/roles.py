"""What a process is for its job, read off its stack when no process record says so."""

from collections.abc import Sequence
from itertools import chain

from whyhang.analyzer.facts import Frame, Role, StackDump, Thread
from whyhang.analyzer.job.launchers import ROLES

_SPAWNER = "torch/multiprocessing/spawn.py"
_OF_CHILD = "_wrap"
"""Which of its functions a child runs in: all others there are of the parent."""


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


def role_of_dump(dump: StackDump) -> Role:
    """Return the role (worker, launcher or rank) by the files that the main thread is in."""
    thread = main_thread(dump)
    return role_of_frames(thread.frames if thread is not None else ())


def role_of_frames(frames: tuple[Frame, ...]) -> Role:
    """Return the role by one stack; a rank where no frame says otherwise."""
    for mark, role in ROLES.items():
        if any(frame.file.endswith(mark) for frame in frames):
            return role
    spawner = next((frame for frame in frames if frame.file.endswith(_SPAWNER)), None)
    return Role.RANK if spawner is None or spawner.function == _OF_CHILD else Role.LAUNCHER

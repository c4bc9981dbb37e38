"""What a process is for its job, read off its stack when no process record says so."""

from collections.abc import Sequence

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
    for thread in threads:
        if pid is not None and thread.tid == pid:
            return thread
    for thread in threads:
        if thread.name == "MainThread":
            return thread
    first = [next((f for f in reversed(t.frames) if not f.native), None) for t in threads]
    for thread, frame in zip(threads, first, strict=True):
        if frame is not None and frame.function in {"<module>", "_run_module_as_main"}:
            return thread
    for thread, frame in zip(threads, first, strict=True):
        if frame is not None and not frame.file.endswith("threading.py"):
            return thread
    return threads[0] if threads else None


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

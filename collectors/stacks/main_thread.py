"""Which of the threads of a process is the main one, where the tool does not say."""

from __future__ import annotations

from collections.abc import Sequence

from whyhang.analyzer.facts import Frame, Thread, replace

MAIN = "MainThread"


def outermost(frames: Sequence[Frame]) -> str:
    """Name the outermost Python function: "<module>" on a main thread."""
    return next((frame.function for frame in reversed(frames) if not frame.native), "")


def main_thread(threads: Sequence[Thread], pid: int | None) -> Thread | None:
    """Return the main thread: its id is the pid, it is called so, or it is the first."""
    for thread in threads:
        if thread.name == MAIN or (thread.tid is not None and thread.tid == pid):
            return thread
    return threads[0] if threads else None


def name_main(threads: Sequence[Thread]) -> tuple[Thread, ...]:
    """Name the main thread in a list where the tool does not, and no pid tells.

    It is the thread whose outermost frame is the module; else one that was not started as a
    thread. Interpreters list the newest thread first (CPython keeps thread states so), so of
    several it is the last one.
    """
    if any(thread.name == MAIN for thread in threads):
        return tuple(threads)
    numbers = range(len(threads))
    main = [n for n in numbers if outermost(threads[n].frames) == "<module>"]
    main = main or [n for n in numbers if threads[n].frames and not _is_started(threads[n])]
    if not main:
        return tuple(threads)
    return (*threads[: main[-1]], replace(threads[main[-1]], name=MAIN), *threads[main[-1] + 1 :])


def _is_started(thread: Thread) -> bool:
    """Tell a thread that the threading module started: it cannot be the main thread."""
    first = next((frame for frame in reversed(thread.frames) if not frame.native), None)
    if first is None:
        return False
    return first.function.endswith("_bootstrap") and first.file.endswith("threading.py")

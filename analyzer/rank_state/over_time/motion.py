"""Did a rank move between two snapshots? A place that changes is progress; slow is not hung.

Three things tell: the stacks of the snapshots, the kernel's counters of the main thread (taken so
that the dump itself does not count), and the process state. A thread that waits for other
ranks and whose counters stand still did not run at all in between.
"""

import enum
from itertools import pairwise

from whyhang.analyzer.facts import SWITCHES_PER_PAUSE, Counters, Frame, Process, Record, StackDump
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.stacks.usercode import is_library, normal

SPINNING = 0.25
"""Share of one CPU from which a thread is taken to compute or spin: ranks share processors."""

TICKS_PER_SECOND = 100  # USER_HZ on every Linux that runs torch


class Moved(enum.Enum):
    """What was seen of one rank's main thread between the snapshots."""

    ON = "it moved on"  # another place in the program
    IN_PLACE = "it runs in place"  # the same function, another line or burning CPU
    STIRRED = "it woke up and is back at the same place"
    STILL = "it did not run at all"
    UNKNOWN = "it was looked at once"


class Motion(Record):
    """The verdict on one member, with the share of one CPU that its main thread used.

    ``sleeps`` is how often it went to sleep between the snapshots (voluntary context switches),
    ``file`` says in which file it went on, and how far.
    """

    moved: Moved
    cpu: float | None = None
    sleeps: int | None = None
    file: str = ""


def motion(dumps: tuple[StackDump, ...], processes: tuple[Process, ...]) -> Motion:
    """Compare all snapshots of one process, oldest first."""
    stacks = [python_frames(dump) for dump in dumps]
    cpu = _cpu(processes)
    return Motion(
        moved=_moved(stacks, cpu, processes),
        cpu=cpu,
        sleeps=_sleeps(processes),
        file=_went_on(processes),
    )


def motion_of_thread(
    tid: int, dumps: tuple[StackDump, ...], processes: tuple[Process, ...]
) -> Motion:
    """Compare all snapshots of one thread beside the main thread: stacks, CPU time, wakes.

    One that is not in every dump has begun what it does since, or has ended it meanwhile.
    """
    threads = [next((t for t in dump.threads if t.tid == tid), None) for dump in dumps]
    stacks = [tuple(f for f in t.frames if not f.native) for t in threads if t is not None]
    cpu = _cpu_of_thread(tid, processes)
    moved = Moved.ON if None in threads else _moved(stacks, cpu, ())
    if moved is Moved.UNKNOWN and cpu is not None:
        woke = any(t.woke for process in processes[1:] for t in process.threads if t.tid == tid)
        moved = Moved.STIRRED if cpu or woke else Moved.STILL
    return Motion(moved=moved, cpu=cpu)


def _cpu_of_thread(tid: int, processes: tuple[Process, ...]) -> float | None:
    """Return the share of one CPU that a thread used between the first and the last snapshot."""
    ticks = [
        (thread.cpu_ticks, process.taken_at)
        for process in processes
        for thread in process.threads
        if thread.tid == tid and thread.cpu_ticks is not None and process.taken_at is not None
    ]
    if len(ticks) < 2:
        return None
    (since, began), (until, ended) = ticks[0], ticks[-1]
    seconds = (ended or 0.0) - (began or 0.0)
    used = ((until or 0) - (since or 0)) / TICKS_PER_SECOND
    return used / seconds if seconds > 0 else None


def _moved(
    stacks: list[tuple[Frame, ...]], cpu: float | None, processes: tuple[Process, ...]
) -> Moved:
    changes = {_change(a, b) for a, b in pairwise(stacks) if a and b}
    if Moved.ON in changes:
        return Moved.ON
    if Moved.IN_PLACE in changes or (cpu is not None and cpu > SPINNING):
        return Moved.IN_PLACE
    ran = [each for a, b in pairwise(processes) if (each := ran_between(a, b)) is not None]
    if not ran:
        # Equal stacks without counters say little: a slow job may come back to its place.
        return Moved.UNKNOWN
    return Moved.STIRRED if any(ran) else Moved.STILL


def python_frames(dump: StackDump) -> tuple[Frame, ...]:
    """Return the main thread's frames, innermost first, without the native ones."""
    thread = main_thread(dump)
    return tuple(f for f in thread.frames if not f.native) if thread else ()


def _change(before: tuple[Frame, ...], after: tuple[Frame, ...]) -> Moved:
    """Compare two stacks of one thread.

    Only what happens above the innermost function of the user's own code counts as going on:
    a loop that polls changes its library frames and its own line all the time.
    """
    if [normal(f) for f in before] == [normal(f) for f in after]:
        return Moved.STILL
    if before[-1].function != after[-1].function:
        return Moved.UNKNOWN  # cut short, or of two threads: a thread keeps its outermost function
    mine, its = ([f for f in frames if not is_library(f)] for frames in (before, after))
    if not mine or not its:
        same_functions = [f.function for f in before] == [f.function for f in after]
        return Moved.IN_PLACE if same_functions else Moved.ON
    same_callers = [normal(f) for f in mine[1:]] == [normal(f) for f in its[1:]]
    same_function = (mine[0].function, mine[0].file) == (its[0].function, its[0].file)
    return Moved.IN_PLACE if same_callers and same_function else Moved.ON


def ran_between(a: Process, b: Process) -> bool | None:
    """Return whether the main thread ran by itself between two snapshots; None without counters."""
    if a.after is None or b.before is None:
        return None
    return b.before.cpu_ticks != a.after.cpu_ticks or _slept(a.after, b.before, b.pauses) != 0


def _slept(since: Counters, until: Counters, pauses: int) -> int:
    return until.switches - since.switches - SWITCHES_PER_PAUSE * pauses


def _sleeps(processes: tuple[Process, ...]) -> int | None:
    """Return how often the main thread went to sleep in between; None without counters."""
    counted = [
        _slept(a.after, b.before, b.pauses)
        for a, b in pairwise(processes)
        if a.after is not None and b.before is not None
    ]
    return sum(counted) if counted else None


MIN_BYTES = 1 << 16
"""Bytes between two snapshots from which a file is being read or written, and not only added to."""

_LOG_SUFFIXES = (".log", ".out", ".err", ".txt", ".json", ".jsonl", ".csv")
"""Files that a loop which gets nowhere may fill as well."""


def _went_on(processes: tuple[Process, ...]) -> str:
    """Return in which file the process went on between the first and the last snapshot."""
    if len(processes) < 2:
        return ""
    first, last = processes[0].positions, processes[-1].positions
    steps = [(last[name] - at, name) for name, at in first.items() if name in last]
    steps = [(step, name) for step, name in steps if not name.lower().endswith(_LOG_SUFFIXES)]
    step, name = max(steps, default=(0, ""))
    return f"{step / 1e6:.1f} MB further in {name}" if step >= MIN_BYTES else ""


def _cpu(processes: tuple[Process, ...]) -> float | None:
    """Return the share of one CPU used between the snapshots."""
    ticks = seconds = 0.0
    for a, b in pairwise(processes):
        if a.after is None or b.before is None or a.taken_at is None or b.taken_at is None:
            continue
        ticks += b.before.cpu_ticks - a.after.cpu_ticks
        seconds += b.taken_at - a.taken_at
    return ticks / TICKS_PER_SECOND / seconds if seconds > 0 else None

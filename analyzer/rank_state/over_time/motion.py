"""Did a rank move between two snapshots? A place that changes is progress; slow is not hung.

Three things tell: the stacks of the snapshots, the kernel's counters of the main thread (taken so
that the dump itself does not count), and the process state. A thread that waits for other
ranks and whose counters stand still did not run at all in between.
"""

import enum
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from whyhang.analyzer.facts import SWITCHES_PER_PAUSE, Frame, Process, Record, StackDump
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.stacks.kinds import LineText, last_name
from whyhang.analyzer.stacks.polls import awaited_file
from whyhang.analyzer.stacks.usercode import COMPREHENSIONS, is_library, normal

SPINNING = 0.25
"""Share of one CPU from which a thread is taken to compute or spin: ranks share processors."""

SQUEEZED = 0.05
"""Share of one CPU that a rank at work gets at least where many processes share the CPUs."""

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

    @property
    def spins(self) -> bool:
        """Whether it used so much of a CPU that it computes or spins."""
        return (self.cpu or 0.0) > SPINNING

    @property
    def squeezed(self) -> bool:
        """Whether it ran so little as one does that shares a CPU with many."""
        return self.moved is Moved.STIRRED and (self.cpu or 0.0) > SQUEEZED


class _Interval(NamedTuple):
    """What a main thread did by itself between two snapshots; ``seconds`` is 0 if not known."""

    ticks: int
    sleeps: int
    seconds: float


def _between(a: Process, b: Process) -> _Interval | None:
    """Compare the counters after one snapshot with those before the next; None without them."""
    if a.after is None or b.before is None:
        return None
    sleeps = b.before.switches - a.after.switches - SWITCHES_PER_PAUSE * b.pauses
    timed = a.taken_at is not None and b.taken_at is not None
    seconds = (b.taken_at or 0.0) - (a.taken_at or 0.0) if timed else 0.0
    return _Interval(b.before.cpu_ticks - a.after.cpu_ticks, sleeps, seconds)


def motion(
    dumps: tuple[StackDump, ...],
    processes: tuple[Process, ...],
    line_text: LineText = lambda _: None,
) -> Motion:
    """Compare all snapshots of one process, oldest first.

    With the lines of source a loop that looks for a file counts as one place.
    """
    stacks = [_without_polls(python_frames(dump), line_text) for dump in dumps]
    intervals = [each for a, b in pairwise(processes) if (each := _between(a, b)) is not None]
    timed = [each for each in intervals if each.seconds]
    seconds = sum(each.seconds for each in timed)
    used = sum(each.ticks for each in timed) / TICKS_PER_SECOND
    cpu = used / seconds if seconds > 0 else None
    return Motion(
        moved=_moved(stacks, cpu, intervals),
        cpu=cpu,
        sleeps=sum(each.sleeps for each in intervals) if intervals else None,
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
    ticks = [
        (thread.cpu_ticks, process.taken_at)
        for process in processes
        for thread in process.threads
        if thread.tid == tid and thread.cpu_ticks is not None and process.taken_at is not None
    ]
    cpu = None
    if len(ticks) > 1 and ticks[-1][1] > ticks[0][1]:
        (since, began), (until, ended) = ticks[0], ticks[-1]
        cpu = (until - since) / TICKS_PER_SECOND / (ended - began)
    moved = Moved.ON if None in threads else _moved(stacks, cpu, ())
    if moved is Moved.UNKNOWN and cpu is not None:
        woke = any(t.woke for process in processes[1:] for t in process.threads if t.tid == tid)
        moved = Moved.STIRRED if cpu or woke else Moved.STILL
    return Motion(moved=moved, cpu=cpu)


def _moved(
    stacks: Sequence[tuple[Frame, ...]], cpu: float | None, intervals: Sequence[_Interval]
) -> Moved:
    changes = {_change(a, b) for a, b in pairwise(stacks) if a and b}
    if Moved.ON in changes:
        return Moved.ON
    if Moved.IN_PLACE in changes or (cpu is not None and cpu > SPINNING):
        return Moved.IN_PLACE
    if not intervals:
        # Equal stacks without counters say little: a slow job may come back to its place.
        return Moved.UNKNOWN
    return Moved.STIRRED if any(x.ticks or x.sleeps for x in intervals) else Moved.STILL


def python_frames(dump: StackDump) -> tuple[Frame, ...]:
    """Return the main thread's frames, innermost first, without the native ones."""
    thread = main_thread(dump)
    return tuple(f for f in thread.frames if not f.native) if thread else ()


def _without_polls(frames: tuple[Frame, ...], text: LineText) -> tuple[Frame, ...]:
    """Leave out what a stack has within a loop that looks for a file again and again.

    And how often a function has called itself at one line, as a timer's handler that waits.
    """
    frames = tuple(frame for frame, caller in zip_longest(frames, frames[1:]) if frame != caller)
    for at in range(len(frames) - 1, -1, -1):
        loop = None if is_library(frames[at]) else awaited_file(frames[at], text)
        if loop is not None:
            return (loop, *frames[at + 1 :])
    return frames


def _change(before: tuple[Frame, ...], after: tuple[Frame, ...]) -> Moved:
    """Compare two stacks of one thread.

    Only what happens above the innermost function of the user's own code counts as going on:
    a loop that polls changes its library frames and its own line all the time. A comprehension is
    of the function around it, as it is in Python from 3.12 on.
    """
    if [normal(f) for f in before] == [normal(f) for f in after]:
        return Moved.STILL
    if before[-1].function != after[-1].function:
        return Moved.UNKNOWN  # cut short, or of two threads: a thread keeps its outermost function
    mine, its = (
        [f for f in frames if not (is_library(f) or last_name(f) in COMPREHENSIONS)]
        for frames in (before, after)
    )
    if not mine or not its:
        same_functions = [f.function for f in before] == [f.function for f in after]
        return Moved.IN_PLACE if same_functions else Moved.ON
    same_callers = [normal(f) for f in mine[1:]] == [normal(f) for f in its[1:]]
    same_function = (mine[0].function, mine[0].file) == (its[0].function, its[0].file)
    return Moved.IN_PLACE if same_callers and same_function else Moved.ON


def ran_between(a: Process, b: Process) -> bool | None:
    """Return whether the main thread ran by itself between two snapshots; None without counters."""
    between = _between(a, b)
    return None if between is None else bool(between.ticks or between.sleeps)


MIN_BYTES = 1 << 16
"""Bytes between two snapshots from which a file is being read or written, and not only added to."""

_LOG_SUFFIXES = (".log", ".out", ".err", ".txt", ".json", ".jsonl", ".csv")
"""Files that a loop which gets nowhere may fill as well; who reads one comes to its end."""


def _went_on(processes: tuple[Process, ...]) -> str:
    if len(processes) < 2:
        return ""
    first, last = processes[0].positions, processes[-1].positions
    steps = [(last[name] - at, name) for name, at in first.items() if name in last]
    only_read = processes[-1].only_read
    steps = [(s, n) for s, n in steps if n in only_read or not n.lower().endswith(_LOG_SUFFIXES)]
    step, name = max(steps, default=(0, ""))
    return f"{step / 1e6:.1f} MB further in {name}" if step >= MIN_BYTES else ""

"""Threads and stacks for tests of where a thread stands."""

from __future__ import annotations

from collections.abc import Callable

from whyhang.analyzer.facts import Frame, Process, Source, StackDump, Thread, Who, replace
from whyhang.analyzer.stacks import Place, place_of
from whyhang.signatures.frames import TABLE

SOURCE = Source(file="stacks.txt")
C10D = "torch/distributed/distributed_c10d.py"

STARTED = (
    "Thread.run (threading.py:982)",
    "Thread._bootstrap_inner (threading.py:1045)",
    "Thread._bootstrap (threading.py:1002)",
)


def stack(*lines: str) -> tuple[Frame, ...]:
    """Make frames of lines as py-spy prints them; a file without a line is native."""
    frames = []
    for line in lines:
        function, _, place = line.removesuffix(")").rpartition(" (")
        file, _, number = place.rpartition(":")
        native = not number.isdigit()
        frames.append(
            Frame(
                function=function,
                file=place if native else file,
                line=None if native else int(number),
                native=native,
            )
        )
    return tuple(frames)


def thread(*lines: str, name: str = "MainThread", tid: int = 10, **facts: bool | None) -> Thread:
    return Thread(frames=stack(*lines), name=name, tid=tid, **facts)


def dump(*threads: Thread) -> StackDump:
    return StackDump(who=Who(pid=10), tool="py-spy", threads=threads, source=SOURCE)


def process(state: str | None = "S", wchan: str | None = None, **facts: object) -> Process:
    made = Process(who=Who(pid=10), source=SOURCE, state=state, wchan=wchan)
    return replace(made, **facts)


def place(*lines: str, state: str | None = None, wchan: str | None = None) -> Place:
    return place_of(dump(thread(*lines)), process(state, wchan), TABLE)


def of_frames(frames: tuple[Frame, ...]) -> Place:
    """Place a thread of which nothing but its stack is known."""
    return place_of(dump(Thread(frames=frames, name="MainThread", tid=10)), None, TABLE)


def says(text: str) -> Callable[[Frame], str | None]:
    return lambda _: text

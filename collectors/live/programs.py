"""Runs many short programs beside each other, each with its own time limit, in one thread.

py-spy pauses the process that it reads. It is therefore started in a session of its own, so
that a Ctrl-C at the terminal does not end it half way through, and hardly more of them run
at once than there are processors, so that none waits long for a processor while it holds its
target. Whatever has to be killed is reported, for the caller to look after the target.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import IO, TypeAlias

from whyhang.analyzer.model import Record

SLOW = 0.5
"""Seconds after which a program no longer counts as busy: it waits, and others may start."""

SPARE = 2
"""Programs that run beyond the number of processors, so that none idles while one is started."""

GRACE = 1.0
"""Seconds that running programs get to end by themselves when the person presses Ctrl-C."""

MAX_OUTPUT = 64 << 20
"""Bytes kept of one program's output; the rest is read and dropped."""

_Event: TypeAlias = tuple[selectors.SelectorKey, int]


class Command(Record):
    """A program to run for one process. ``limit`` is in seconds."""

    pid: int
    arguments: tuple[str, ...]
    limit: float


class Outcome(Record):
    """How a program ended. ``code`` is None where it could not be started or was killed."""

    command: Command
    code: int | None
    output: bytes
    errors: str
    began: float  # seconds since the epoch
    seconds: float
    timed_out: bool = False


class Plan:
    """What to run for each process, and what to do around it."""

    def begin(self, pid: int) -> Command | None:
        """Give the program to run for a process, right before it starts; None to leave it out."""
        raise NotImplementedError

    def after(self, pid: int) -> None:
        """Take note of the process right after the program ended."""

    def killed(self, pid: int) -> None:
        """Look after the target of a program that had to be killed."""


class _Running:
    """One program under way."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes]) -> None:
        self.command = command
        self.process = process
        self.began = time.time()
        self.clock = time.monotonic()
        self.parts: dict[str, list[bytes]] = {"output": [], "errors": []}
        self.sizes = {"output": 0, "errors": 0}
        self.open = 2

    def age(self) -> float:
        return time.monotonic() - self.clock

    def take(self, name: str, data: bytes) -> None:
        self.sizes[name] += len(data)
        if self.sizes[name] <= MAX_OUTPUT:
            self.parts[name].append(data)

    def outcome(self, *, timed_out: bool) -> Outcome:
        return Outcome(
            command=self.command,
            code=None if timed_out else self.process.returncode,
            output=b"".join(self.parts["output"]),
            errors=b"".join(self.parts["errors"]).decode(errors="replace"),
            began=self.began,
            seconds=self.age(),
            timed_out=timed_out,
        )


def run_all(
    pids: Iterable[int],
    plan: Plan,
    *,
    width: int | None = None,
    done: Callable[[Outcome], None] | None = None,
    meanwhile: Iterator[object] | None = None,
) -> list[Outcome]:
    """Run a program for each process, ``width`` busy ones at a time; outcomes as they came.

    While there is nothing to do but wait, ``meanwhile`` is asked for its next item: work of a
    few milliseconds each that would have to be done anyway.

    On ``KeyboardInterrupt`` those under way may finish for ``GRACE`` seconds, then it is
    raised again. No program is left running, whatever happens.
    """
    with _Interrupts() as interrupts:
        pool = _Pool(list(pids), plan, width or os.cpu_count() or 1, interrupts)
        pool.meanwhile = meanwhile
        try:
            pool.run(done or (lambda _: None))
        except BaseException:
            pool.wind_up()
            raise
        finally:
            pool.close()
    return pool.outcomes


class _Interrupts:
    """Lets a Ctrl-C through only while waiting, so that no program is lost while it starts."""

    def __init__(self) -> None:
        self._noted = False
        self._waiting = False
        self._active = False

    def __enter__(self) -> _Interrupts:  # noqa: PYI034 - typing.Self is of Python 3.11
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._active = True
        return self

    def __exit__(self, *error: object) -> None:
        if self._active:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._noted and error[0] is None:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._waiting:
            self._waiting = False
            raise KeyboardInterrupt
        self._noted = True

    def wait(self, selector: selectors.BaseSelector, pause: float) -> list[_Event]:
        """Wait for output; raises ``KeyboardInterrupt``, also for one that came before."""
        self._waiting = True
        try:
            if self._noted:
                self._noted = False
                raise KeyboardInterrupt
            return selector.select(pause)
        finally:
            self._waiting = False


class _Pool:
    """The programs that wait, that run and that are done."""

    def __init__(
        self, pids: Sequence[int], plan: Plan, width: int, interrupts: _Interrupts
    ) -> None:
        self._interrupts = interrupts
        self.meanwhile: Iterator[object] | None = None
        self._waiting = list(reversed(pids))
        self._running: set[_Running] = set()
        self._selector = selectors.DefaultSelector()
        self._plan = plan
        self._width = width
        self.outcomes: list[Outcome] = []

    def run(self, done: Callable[[Outcome], None]) -> None:
        told = 0
        while self._waiting or self._running:
            spare = SPARE if self.meanwhile is None else 1  # leave a share for the other work
            while self._waiting and self._busy() < self._width + spare:
                self._start(self._waiting.pop())
            if not self._read(0.0 if self.meanwhile else self._pause()):
                self._work()
            self._stop_late()
            while told < len(self.outcomes):
                done(self.outcomes[told])
                told += 1

    def wind_up(self) -> None:
        """Let what runs come to its end for a moment; starts nothing more."""
        self._waiting.clear()
        until = time.monotonic() + GRACE
        with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C ends the patience
            while self._running and time.monotonic() < until:
                self._read(0.05)

    def close(self) -> None:
        for running in list(self._running):
            self._kill(running)
        self._selector.close()

    def _busy(self) -> int:
        return sum(running.age() < SLOW for running in self._running)

    def _pause(self) -> float:
        """Give the seconds until the next program is late or no longer counts as busy."""
        ages = [(running.age(), running.command.limit) for running in self._running]
        until = [limit - age for age, limit in ages]
        if self._waiting:
            until += [SLOW - age for age, _ in ages if age < SLOW]
        return max(0.0, min(until, default=0.0))

    def _start(self, pid: int) -> None:
        command = self._plan.begin(pid)
        if command is None:
            return
        try:
            process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self.outcomes.append(
                Outcome(
                    command=command,
                    code=None,
                    output=b"",
                    errors=f"{command.arguments[0]}: {error.strerror}",
                    began=time.time(),
                    seconds=0.0,
                )
            )
            return
        running = _Running(command, process)
        self._running.add(running)
        for name, stream in (("output", process.stdout), ("errors", process.stderr)):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, (running, name))

    def _work(self) -> None:
        """Do a piece of other work while the programs run."""
        if self.meanwhile is not None and next(self.meanwhile, self) is self:
            self.meanwhile = None

    def _read(self, pause: float) -> bool:
        """Take what the programs print; give whether there was anything."""
        events = self._interrupts.wait(self._selector, pause)
        for key, _ in events:
            running, name = key.data
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
            data = os.read(stream.fileno(), 1 << 16)
            if data:
                running.take(name, data)
                continue
            self._selector.unregister(stream)
            running.open -= 1
            if not running.open:
                running.process.wait()
                self._plan.after(running.command.pid)
                self._finish(running, timed_out=False)
        return bool(events)

    def _stop_late(self) -> None:
        for running in list(self._running):
            if running.age() >= running.command.limit:
                self._kill(running)

    def _kill(self, running: _Running) -> None:
        """Kill a program and wait for its end: a killed tracer lets go of its target."""
        for stream in (running.process.stdout, running.process.stderr):
            if stream is not None:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(stream)
        running.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(GRACE)
        self._plan.killed(running.command.pid)
        self._finish(running, timed_out=True)

    def _finish(self, running: _Running, *, timed_out: bool) -> None:
        self._running.discard(running)
        for stream in (running.process.stdout, running.process.stderr):
            if stream is not None:
                stream.close()
        self.outcomes.append(running.outcome(timed_out=timed_out))

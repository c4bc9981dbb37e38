"""Runs short programs beside each other, each with its own time limit, in one thread.

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
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import IO, TypeAlias

from whyhang.analyzer.facts import Record
from whyhang.collectors.live.proc import Proc

SLOW = 0.5
"""Seconds after which a program no longer counts as busy: it waits, and others may start."""

SPARE = 2
"""Programs that run beyond the number of processors, so that none idles while one is started."""

GRACE = 1.0
"""Seconds that running programs get to end by themselves when the person presses Ctrl-C."""

MAX_OUTPUT = 65 << 20
"""Bytes kept of one program's output, more than any report has; the rest is dropped."""

_Event: TypeAlias = tuple[selectors.SelectorKey, int]


class Command(Record):
    """A program to run and its limit in seconds; ``pid`` is the process that it is about."""

    arguments: tuple[str, ...]
    limit: float
    pid: int = 0


class Outcome(Record):
    """How a program ended. ``code`` is None where it could not be started or was killed.

    ``asleep`` says where in the kernel it slept (state D) as its time was up, "" where hidden.
    """

    command: Command
    code: int | None
    began: float  # seconds since the epoch
    output: bytes = b""
    errors: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    asleep: str | None = None


def run_all(
    commands: Iterable[Command],
    *,
    width: int | None = None,
    ended: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Run programs, ``width`` busy ones at a time; give how they ended, in that order.

    Each command is taken from ``commands`` right before it starts; ``ended`` is called right
    after it came to its end or was killed.

    On ``KeyboardInterrupt`` those under way may finish for ``GRACE`` seconds, then it is
    raised again. No program is left running that can be ended, whatever happens.
    """
    with _Interrupts() as interrupts:
        pool = _Pool(iter(commands), width or os.cpu_count() or 1, ended, interrupts)
        try:
            pool.run()
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


class _Running:
    """One program under way."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.began = time.time()
        self._clock = time.monotonic()
        self.process = subprocess.Popen(
            command.arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.streams = [s for s in (self.process.stdout, self.process.stderr) if s is not None]
        self.parts = {stream.fileno(): bytearray() for stream in self.streams}
        self.open = len(self.streams)

    def age(self) -> float:
        return time.monotonic() - self._clock

    def outcome(self, *, timed_out: bool, asleep: str | None) -> Outcome:
        output, errors = self.parts.values()
        return Outcome(
            command=self.command,
            code=None if timed_out else self.process.returncode,
            output=bytes(output),
            errors=errors.decode(errors="replace"),
            began=self.began,
            seconds=self.age(),
            timed_out=timed_out,
            asleep=asleep,
        )


class _Pool:
    """The programs that wait, that run and that are done."""

    def __init__(
        self,
        commands: Iterator[Command],
        width: int,
        ended: Callable[[Outcome], None],
        interrupts: _Interrupts,
    ) -> None:
        self._waiting: Iterator[Command] | None = commands
        self._most_busy = width + SPARE
        self._ended = ended
        self._interrupts = interrupts
        self._running: set[_Running] = set()
        self._selector = selectors.DefaultSelector()
        self.outcomes: list[Outcome] = []

    def run(self) -> None:
        while True:
            while self._waiting and sum(r.age() < SLOW for r in self._running) < self._most_busy:
                self._start_next(self._waiting)
            if not self._running:
                return
            self._read(self._pause())
            for running in list(self._running):
                if running.age() >= running.command.limit:
                    self._end(running)

    def wind_up(self) -> None:
        """Let what runs come to its end for a moment; starts nothing more."""
        self._waiting = None
        until = time.monotonic() + GRACE
        with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C ends the patience
            while self._running and time.monotonic() < until:
                self._read(0.05)

    def close(self) -> None:
        for running in list(self._running):
            self._end(running)
        self._selector.close()

    def _pause(self) -> float:
        """Return the seconds until the next program is late or no longer counts as busy."""
        ages = [(running.age(), running.command.limit) for running in self._running]
        until = [limit - age for age, limit in ages]
        if self._waiting:
            until += [SLOW - age for age, _ in ages if age < SLOW]
        return max(0.0, min(until, default=0.0))

    def _start_next(self, waiting: Iterator[Command]) -> None:
        command = next(waiting, None)
        if command is None:
            self._waiting = None
            return
        try:
            running = _Running(command)
        except OSError as error:
            words = f"{command.arguments[0]}: {error.strerror}"
            self._note(Outcome(command=command, code=None, errors=words, began=time.time()))
            return
        self._running.add(running)
        for stream in running.streams:
            self._selector.register(stream, selectors.EVENT_READ, running)

    def _read(self, pause: float) -> None:
        """Take what the programs print."""
        for key, _ in self._interrupts.wait(self._selector, pause):
            running: _Running = key.data
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
            data = os.read(stream.fileno(), 1 << 16)
            if data:
                kept = running.parts[stream.fileno()]
                kept += data[: max(0, MAX_OUTPUT - len(kept))]
                continue
            self._selector.unregister(stream)
            running.open -= 1
            if not running.open:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.process.wait(max(0.0, running.command.limit - running.age()))
                self._end(running)

    def _end(self, running: _Running) -> None:
        """Note how a program ended; where it has not, kill it: a killed tracer lets its target go.

        What sleeps in the kernel past the signal is left behind.
        """
        late = running.process.poll() is None
        thread = Proc().asleep_in_kernel(running.process.pid) if late else None
        if late:
            with contextlib.suppress(OSError):
                os.killpg(running.process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.process.wait(GRACE)
        for stream in running.streams:
            with contextlib.suppress(KeyError):
                self._selector.unregister(stream)
            stream.close()
        self._running.discard(running)
        asleep = None if thread is None else thread.wchan or ""
        self._note(running.outcome(timed_out=late, asleep=asleep))

    def _note(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._ended(outcome)

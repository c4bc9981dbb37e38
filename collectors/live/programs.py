"""Runs short programs beside each other, each with its own time limit and in a thread of its own.

py-spy pauses the process that it reads. It is therefore started in a session of its own, so
that a Ctrl-C at the terminal does not end it half way through, and hardly more of them run
at once than there are processors, so that none waits long for a processor while it holds its
target. Whatever has to be killed is reported, for the caller to look after the target. Ctrl-C
reaches the main thread only, so that no program is lost while it starts.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from whyhang.analyzer.facts import Record, replace
from whyhang.collectors.live.proc import Proc

SLOW = 0.5
"""Seconds after which a program no longer counts as busy: it waits, and others may start."""

SPARE = 2
"""Programs that run beyond the number of processors, so that none idles while one is started."""

GRACE = 1.0
"""Seconds that running programs get to end by themselves when the person presses Ctrl-C."""

MAX_OUTPUT = 65 << 20
"""Bytes kept of one program's output, more than any report has; the rest is dropped."""


class TimedCommand(Record):
    """A program to run and its limit in seconds; ``pid`` is the process that it is about."""

    arguments: tuple[str, ...]
    limit: float
    pid: int = 0


class Outcome(Record):
    """How a program ended. ``code`` is None where it could not be started or was killed.

    ``asleep`` says where in the kernel it slept (state D) as its time was up, "" where hidden.
    """

    command: TimedCommand
    code: int | None
    began: float  # seconds since the epoch
    output: bytes = b""
    errors: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    asleep: str | None = None


def run_all(
    commands: Iterable[TimedCommand],
    *,
    width: int | None = None,
    ended: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Run programs, ``width`` busy ones at a time; give how they ended, in the order of commands.

    Each command is taken from ``commands`` right before it starts; ``ended`` is called right
    after it came to its end or was killed, from its thread.

    On ``KeyboardInterrupt`` those under way may finish for ``GRACE`` seconds, then it is
    raised again. No program is left running that can be ended, whatever happens.
    """
    free = threading.Semaphore((width or os.cpu_count() or 1) + SPARE)
    waiting = iter(commands)
    programs: list[_Program] = []
    try:
        while free.acquire() and (command := next(waiting, None)) is not None:
            programs.append(_Program(command, free, ended))
            programs[-1].start()
        for program in programs:
            program.join()
    except BaseException:
        _wind_up(programs)
        raise
    for program in programs:
        if program.error is not None:
            raise program.error
    return [program.outcome for program in programs]


def run(*arguments: str, limit: float) -> Outcome:
    """Run one program."""
    (outcome,) = run_all([TimedCommand(arguments=arguments, limit=limit)])
    return outcome


def _wind_up(programs: Sequence[_Program]) -> None:
    """Let what runs come to its end for a moment, then end it."""
    until = time.monotonic() + GRACE
    with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C ends the patience
        for program in programs:
            program.wait(until - time.monotonic())
    for program in programs:
        program.cut_off()
    for program in programs:
        program.wait(GRACE)


class _Program(threading.Thread):
    """One program under way. It holds one of the places that are ``free`` while it is busy."""

    def __init__(
        self, command: TimedCommand, free: threading.Semaphore, ended: Callable[[Outcome], None]
    ) -> None:
        super().__init__()
        self.outcome = Outcome(command=command, code=None, began=time.time())
        self.error: BaseException | None = None
        self._free = free
        self._busy = True
        self._ended = ended
        self._clock = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._is_cut_off = False

    def run(self) -> None:
        """Run it to its end or limit."""
        try:
            self.outcome = self._run(self.outcome.command)
            self._ended(self.outcome)
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self.error = error
        finally:
            self._give_way()

    def wait(self, seconds: float) -> None:
        """Wait for its end; it may never have begun."""
        with contextlib.suppress(RuntimeError):
            self.join(max(0.0, seconds))

    def cut_off(self) -> None:
        """End it now, or keep it from starting."""
        with self._starting:
            self._is_cut_off = True
        if self._process is not None and self.is_alive():
            self._kill(self._process)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)

    def _age(self) -> float:
        return time.monotonic() - self._clock

    def _give_way(self) -> None:
        if self._busy:
            self._busy = False
            self._free.release()

    def _run(self, command: TimedCommand) -> Outcome:
        """Start it and wait for it; where it is late, kill it: a killed tracer lets its target go.

        What sleeps in the kernel past the signal is left behind.
        """
        try:
            with self._starting:
                if self._is_cut_off:
                    return self.outcome
                self._process = process = subprocess.Popen(
                    command.arguments,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
        except OSError as error:
            return replace(self.outcome, errors=f"{command.arguments[0]}: {error.strerror}")
        output, errors = self._printed(process)
        self._give_way()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, command.limit - self._age()))
        late = process.poll() is None
        thread = Proc().asleep_in_kernel(process.pid) if late else None
        if late:
            self._kill(process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        late = late or self._is_cut_off
        return replace(
            self.outcome,
            code=None if late else process.returncode,
            output=output,
            errors=errors.decode(errors="replace"),
            seconds=self._age(),
            timed_out=late,
            asleep=None if thread is None else thread.wchan or "",
        )

    def _printed(self, process: subprocess.Popen[bytes]) -> list[bytes]:
        """Read output and errors to their end, or to the limit."""
        kept: list[bytearray] = []
        with contextlib.ExitStack() as stack:
            selector = stack.enter_context(selectors.DefaultSelector())
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    kept.append(bytearray())
                    selector.register(stack.enter_context(stream), selectors.EVENT_READ, kept[-1])
            while selector.get_map() and (left := self.outcome.command.limit - self._age()) > 0:
                if self._busy and self._age() >= SLOW:
                    self._give_way()
                pause = min(left, SLOW - self._age()) if self._busy else left
                for key, _ in selector.select(max(0.0, pause)):
                    data = os.read(key.fd, 1 << 16)
                    key.data.extend(data[: max(0, MAX_OUTPUT - len(key.data))])
                    if not data:
                        selector.unregister(key.fileobj)
        return list(map(bytes, kept))

"""Progress on standard error: a few lines that are written over, on a terminal only.

A timer's signal interrupts the main thread a few times a second, and the handler writes the
line. No thread does it: processes that are forked to read files would inherit its locks.
Nothing is shown before ``PATIENCE`` has passed, so short runs do not flicker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from whyhang.analyzer.reports.outgoing import plain
from whyhang.collectors.files.meter import Meter

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 1.0  # seconds before anything is shown
EVERY = 0.25  # seconds between two updates
_END_OF_LINE = b"\x1b[K"  # what stands behind it goes
_END_OF_SCREEN = b"\x1b[J"
_WHEEL = "|/-\\"
_Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


class Progress:
    """Shows what is being done, once it takes long enough to wonder."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.meter = Meter()
        self._doing = ""
        self._turns = 0
        self._below = 0  # lines below the first
        self._before: _Handler = signal.SIG_DFL
        self._shows = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def say(self, text: str) -> None:
        """Set what is going on now: a line, and perhaps further ones that are set in below it."""
        self._doing = text

    def __enter__(self) -> Self:
        if self._shows:
            try:
                self._before = signal.signal(signal.SIGALRM, self._show)
            except ValueError:  # not the main thread
                self._shows = False
            else:
                signal.setitimer(signal.ITIMER_REAL, PATIENCE, EVERY)
        return self

    def __exit__(self, *_: object) -> None:
        if self._shows:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before or signal.SIG_DFL)
            if self._turns:
                _write(self._to_the_top() + _END_OF_SCREEN)

    def _show(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        text = self.meter.words(time.monotonic()) or self._doing
        if not text:
            return
        try:
            size = os.get_terminal_size(sys.stderr.fileno())
        except (OSError, ValueError):
            size = os.terminal_size((80, 24))
        first, *more = text.splitlines()[: max(1, (size.lines or 24) - 1)]
        lines = [f"{_WHEEL[self._turns % len(_WHEEL)]} {first}", *(f"    {line}" for line in more)]
        self._turns += 1
        shown = (plain(line)[: (size.columns or 80) - 1] for line in lines)
        encoding = sys.stderr.encoding or "ascii"
        data = b"\n".join(line.encode(encoding, "replace") + _END_OF_LINE for line in shown)
        _write(self._to_the_top() + data + _END_OF_SCREEN)
        self._below = len(lines) - 1

    def _to_the_top(self) -> bytes:
        """Return what leads back to the first of the lines that were written last."""
        return b"\r" + (b"\x1b[%dA" % self._below if self._below else b"")


def _write(data: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), data)  # unbuffered: this may interrupt a print

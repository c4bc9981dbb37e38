"""Signals that end a run, so that none of them is lost.

A handler of Python raises wherever the program just is. What is raised in a destructor, and in some
libraries, is dropped, and the program would go on as if nobody had pressed Ctrl-C: compiling
patterns destroys many objects. So the signal is sent again where Python says that it dropped it,
and noted, for what runs until it is told to end. While modules are imported nothing is raised at
all: a library in C that is interrupted there may take the process down.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

AGAIN = 0.05  # seconds after which a signal is sent again whose exception was dropped

_came = threading.Event()
_importing = threading.Event()


def heed() -> None:
    """Note Ctrl-C, and lose no signal, from now on; for the main thread of a program."""
    sys.unraisablehook = _send_again
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def check() -> None:
    """Raise ``KeyboardInterrupt`` if Ctrl-C has come before, whatever became of that."""
    if _came.is_set():
        raise KeyboardInterrupt


@contextlib.contextmanager
def while_importing() -> Iterator[None]:
    """Let Ctrl-C wait until modules are imported; then it counts."""
    _importing.set()
    try:
        yield
    finally:
        _importing.clear()
    check()


def _interrupt(number: int, frame: FrameType | None) -> None:
    _came.set()
    if not _importing.is_set():
        signal.default_int_handler(number, frame)


def _send_again(dropped: sys.UnraisableHookArgs) -> None:
    number = getattr(dropped.exc_type, "signal", None)
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        number = signal.SIGINT
    if number is None:
        sys.__unraisablehook__(dropped)
        return
    again = threading.Timer(AGAIN, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()

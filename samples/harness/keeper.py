"""Runs one command and sees to it that nothing of it survives.

Run by path as a process of its own (standard library only, no import of whyhang)::

    python -I -S keeper.py --seconds 600 --scratch DIR -- COMMAND...

It prints ``pid N`` once the command runs, and ``ended N`` if everything ended by itself.
All processes of the command are ended when standard input closes, which happens however
the parent ends, or when the time is up. As the "child subreaper" of Linux it inherits
every orphan below it, so that a process that left its session, its group or its parent is
still found. It lives in a session of its own and does not hear a Ctrl-C at the terminal.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

OUTPUT = "output.log"
"""File in the scratch folder that takes what the command prints."""

GRACE = 2.0
"""Seconds that a launcher gets to end its ranks by itself after SIGTERM."""

_HAS_SUBREAPER = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_KILL_LIMIT = 10.0
_POLL = 0.1


def parents() -> Iterator[tuple[int, int]]:
    """Yield ``(pid, parent pid)`` of every living process on this machine; no zombies."""
    if not Path("/proc/self/stat").exists():
        yield from _parents_by_ps()
        return
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # "pid (name) state ppid ...": the name may hold blanks and brackets
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] not in "ZX":
                yield int(entry.name), int(fields[1])


def _parents_by_ps() -> Iterator[tuple[int, int]]:
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False
    )
    for row in listing.stdout.splitlines():
        pid, ppid = row.split()
        yield int(pid), int(ppid)


def descendants(root: int) -> list[int]:
    """List the living processes below ``root``, without ``root`` itself."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents():
        children.setdefault(parent, []).append(pid)
    below: list[int] = []
    queue = [root]
    while queue:
        own = children.get(queue.pop(), [])
        below += own
        queue += own
    return below


def _become_subreaper() -> None:
    if _HAS_SUBREAPER:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class _Descendants:
    """The processes below us: what is left of them, and how the launcher ended."""

    def __init__(self, launcher: int) -> None:
        self.launcher = launcher
        self.code: int | None = None

    def reap(self) -> bool:
        """Collect the dead; return whether nothing is left.

        A process whose parent lives has a living ancestor among our own children, and an
        orphan becomes our child, so having no children means having no descendants.
        """
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self.launcher:
                    self.code = os.waitstatus_to_exitcode(status)
                if pid == 0:
                    return False
        return _HAS_SUBREAPER or not descendants(os.getpid())

    def end(self) -> bool:
        """Ask the launcher, then kill whatever is left, stopped processes too."""
        deadline = time.monotonic() + GRACE
        if not self.reap() and self.code is None:
            _signal([self.launcher], signal.SIGTERM, signal.SIGCONT)
        while not self.reap() and self.code is None and time.monotonic() < deadline:
            time.sleep(0.02)
        deadline = time.monotonic() + _KILL_LIMIT
        while not (gone := self.reap()) and time.monotonic() < deadline:
            _signal(descendants(os.getpid()), signal.SIGKILL)
            time.sleep(0.02)
        return gone


def _signal(pids: Iterable[int], *numbers: int) -> None:
    for pid in pids:
        for number in numbers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _parent_is_done(seconds: float) -> bool:
    """Wait so long for the parent to close our standard input."""
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(readable) and not os.read(sys.stdin.fileno(), 4096)


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def _watch(kept: _Descendants, seconds: float) -> None:
    """Return when the parent says so, or when the time is up."""
    deadline = time.monotonic() + seconds
    announced = False
    while time.monotonic() < deadline and not _parent_is_done(_POLL):
        if kept.reap() and not announced:
            announced = True  # the parent may still want to read the output: stay
            _say(f"ended {kept.code}")


def keep(command: list[str], scratch: Path, seconds: float) -> int:
    """Run ``command`` until the parent ends or says so, at most so many seconds.

    Returns 0, or 1 when a process could not be ended.
    """
    _become_subreaper()
    # a standard input that stays open and never says anything, as a person's terminal does
    silent, _held_open = os.pipe()
    with (scratch / OUTPUT).open("ab") as output:
        launcher = subprocess.Popen(
            command, stdin=silent, stdout=output, stderr=output, start_new_session=True
        )
    kept = _Descendants(launcher.pid)
    try:
        _say(f"pid {launcher.pid}")
        _watch(kept, seconds)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        gone = kept.end()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if gone else 1


def main() -> int:
    """Parse the command line and keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # a handler: SIG_IGN would be inherited
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return keep(options.command, options.scratch, options.seconds)


if __name__ == "__main__":
    sys.exit(main())

"""What a command costs: its time on the wall and on processors, and the memory of all it starts."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """What a run took: time on the wall and on processors, and peak memory of all processes."""

    seconds: float
    cpu: float
    megabytes: float


def timed(command: Sequence[str], *, memory_every: float | None = None) -> tuple[Cost, str, str]:
    """Run a command; return what it cost, its output and its errors.

    ``memory_every``: add up its memory and its children's, so many seconds apart; the kernel
    knows the peak of each for itself only.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # As pip installs it, a program finds its bytecode.
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environ)
        peak = 0.0
        while True:
            ended, status, usage = os.wait4(process.pid, 0 if memory_every is None else os.WNOHANG)
            if ended:
                break
            peak = max(peak, _proportional(process.pid))
            time.sleep(memory_every or 0.0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
    megabytes = max(peak, usage.ru_maxrss / 1024)
    return Cost(seconds, usage.ru_utime + usage.ru_stime, megabytes), texts[0], texts[1]


def _proportional(pid: int) -> float:
    """Add up the megabytes of a process and its children, what they share counted once."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return 0.0
        rollups = [Path(f"/proc/{p}/smaps_rollup").read_text() for p in (pid, *children)]
    except OSError:  # one has just ended, or this is no Linux
        return 0.0
    matches = [re.search(r"^Pss: +(\d+) kB", rollup, re.MULTILINE) for rollup in rollups]
    return sum(int(match[1]) for match in matches if match) / 1024

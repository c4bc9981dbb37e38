"""How long ``whyhang.heartbeat(step)`` takes, and how long ``import whyhang`` takes before it.

The bar: less than 20 microseconds a step. Measured in a program of its own for each folder: one on
the temporary folder's disk, one in memory (/dev/shm) where there is one.

    python benchmarks/heartbeat.py [--steps 100000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BAR = 20.0
"""Microseconds a step that the median may take."""

PROGRAM = """
import sys, time
began = time.perf_counter()
import whyhang
whyhang.heartbeat(0)
ready = time.perf_counter() - began
steps = int(sys.argv[1])
began = time.perf_counter()
for step in range(steps):
    whyhang.heartbeat(step)
print(ready * 1e3, (time.perf_counter() - began) / steps * 1e6)
"""


def main() -> int:
    """Measure and print; exit code 1 if the bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    kept = True
    for place in (tempfile.gettempdir(), "/dev/shm"):
        if not Path(place).is_dir():
            continue
        with tempfile.TemporaryDirectory(dir=place) as folder:
            runs = [measured(folder, options.steps) for _ in range(options.rounds)]
        first = statistics.median(first for first, _ in runs)
        each = statistics.median(each for _, each in runs)
        kept &= each < BAR
        word = "kept" if each < BAR else "NOT KEPT"
        print(
            f"{place:12} import and first call {first:6.1f} ms   a step {each:5.2f} us "
            f"(worst round {max(each for _, each in runs):5.2f})   bar {BAR:g} us: {word}"
        )
    return 0 if kept else 1


def measured(folder: str, steps: int) -> tuple[float, float]:
    """Return the milliseconds until the first call is over, and microseconds a step after it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(steps)],
        env={**os.environ, "WHYHANG_HEARTBEAT_DIR": folder, "RANK": "3", "WORLD_SIZE": "8"},
        capture_output=True,
        text=True,
        check=True,
    )
    first, each = map(float, done.stdout.split())
    return first, each


if __name__ == "__main__":
    raise SystemExit(main())

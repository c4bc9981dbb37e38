"""What ``whyhang watch`` costs: processor time of its looks at a job of 8 ranks.

Starts 8 ranks with 2 workers each that note their steps, print, and move as training does (no
torch), and watches them for a while with looks 2 s apart, so that there are many in a short time.
The bar is for looks 30 s apart, as they are by default: less than 0.5 % of one core. The first look
finds the job; what that and starting take is printed beside it.

    python benchmarks/watching.py [--ranks 8] [--seconds 60]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from whyhang.analyzer.commands.following import follow
from whyhang.collectors.watch.course import SilenceLimits
from whyhang.collectors.watch.processes import Processes

BAR = 0.5
"""Percent of a core, with a look every ``EVERY`` seconds."""

EVERY = 30.0
INTERVAL = 2.0

RANK = """
import os, subprocess, sys, time, whyhang
rank = int(os.environ["RANK"])
for _ in range(2):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10000)"])
for step in range(10**6):
    whyhang.heartbeat(step)
    print("step", step, flush=True)
    time.sleep(0.05)
"""


def main() -> int:
    """Measure and print; exit code 1 if the bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(RANK)
        job = [start(folder, rank, options.ranks) for rank in range(options.ranks)]
        try:
            time.sleep(3)
            return measure(job[0].pid, options.seconds)
        finally:
            for each in job:
                os.killpg(each.pid, 9)
                each.wait()


def start(folder: Path, rank: int, ranks: int) -> subprocess.Popen[bytes]:
    """Start one rank in a session of its own."""
    environ = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29999",
        "WHYHANG_HEARTBEAT_DIR": str(folder),
    }
    with (folder / f"rank{rank}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "train.py"],
            cwd=folder,
            env=environ,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def measure(pid: int, seconds: float) -> int:
    """Watch for so long; the time of the helper that touches files counts, too."""
    before = used()
    looks = Processes(pid)
    looks.look()
    begun = used() - before
    before, count = used(), 0
    until = time.monotonic() + seconds

    def sleep(pause: float) -> None:
        nonlocal count
        count += 1
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(pause)

    try:
        for event in follow(looks, _asked, SilenceLimits(), every=INTERVAL, sleep=sleep):
            raise SystemExit(f"the job should have gone on: {event}")
    except TimeoutError:
        pass
    each = (used() - before + helper(looks)) / count
    share = each / EVERY * 100
    word = "kept" if share < BAR else "NOT KEPT"
    print(
        f"{looks.in_words()}: {count} looks, {each * 1e3:.1f} ms of processor time each; ", end=""
    )
    print(f"finding the job {begun:.2f} s, once")
    print(f"with a look every {EVERY:g} s: {share:.3f} % of a core   bar {BAR:g} %: {word}")
    return 0 if share < BAR else 1


def _asked(*_: object) -> None:
    raise SystemExit("a job that goes on was asked about")


def used() -> float:
    """Return the processor time of this process in seconds."""
    times = os.times()
    return times.user + times.system


def helper(looks: Processes) -> float:
    """Return the processor time of the children that touch files for it, since they began."""
    total = 0
    for pid in looks.host.proc.table():
        stat = looks.host.proc.stat(pid)
        if stat is not None and stat.ppid == os.getpid():
            total += stat.cpu_ticks
    return total / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    raise SystemExit(main())

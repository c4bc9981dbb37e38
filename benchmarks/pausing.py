"""For how long whyhang holds up a job that works: the job's own steps, and what the report says.

Starts ranks on the CPU (gloo) whose steps take some 8 ms and end in an all_reduce, notes when each
step ends, and looks at them. Printed for each rank: its steps before and while it is looked at, the
longest, how many took far longer than before, and for how long the report says that it was paused
at most. A rank that is paused holds up the others, which is counted there as well. Needs torch.

    python benchmarks/pausing.py [--ranks 2] [--looks 20] [--interval 0.5] [--step 0.008]
"""

from __future__ import annotations

import argparse
import array
import itertools
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SCRIPT = """
import os, struct, sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
ends = os.open(sys.argv[1] + "/" + os.environ["RANK"], os.O_WRONLY | os.O_CREAT)
gradient = torch.ones(1000)
while True:
    until = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until:
        gradient.mul_(1.0)
    dist.all_reduce(gradient)
    os.write(ends, struct.pack("d", time.monotonic()))
"""
BEFORE = 6.0  # seconds that the job runs by itself
LONG = 5  # times the median of before: such a step was held up
SAYS = re.compile(r"rank (\d+) for at most ([\d.]+) s in (\d+) stack dumps")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--looks", type=int, default=20)
    parser.add_argument("--interval", type=float, default=0.5)
    parser.add_argument("--step", type=float, default=0.008, help="seconds that a rank computes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pausing-") as scratch:
        folder = Path(scratch)
        job = _start(folder, options.ranks, options.step)
        try:
            _wait_for_steps(folder, options.ranks, job)
            time.sleep(BEFORE)
            begun = time.monotonic()
            report = _look(job.pid, options.looks, options.interval)
            ended = time.monotonic()
        finally:
            job.terminate()  # torchrun ends its ranks, which have sessions of their own
            job.wait(60)
        _print(folder, options.ranks, (begun, ended), report)
    return 0


def _start(folder: Path, ranks: int, step: float) -> subprocess.Popen[bytes]:
    (folder / "train.py").write_text(SCRIPT)
    (folder / "ends").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command += ["--master-port", str(port), str(folder / "train.py"), str(folder / "ends")]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*command, str(step)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _wait_for_steps(folder: Path, ranks: int, job: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while not all(_ends(folder, rank) for rank in range(ranks)):
        if job.poll() is not None or time.monotonic() > until:
            raise SystemExit((folder / "log").read_text()[-2000:])
        time.sleep(0.2)


def _ends(folder: Path, rank: int) -> Sequence[float]:
    """Return when the steps of a rank ended, in seconds of the clock that all processes share."""
    path = folder / "ends" / str(rank)
    data = path.read_bytes() if path.exists() else b""
    return array.array("d", data[: len(data) // 8 * 8])


def _look(pid: int, looks: int, interval: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "whyhang", str(pid), "--format", "json"]
    command += ["--looks", str(looks), "--interval", str(interval)]
    report: dict[str, Any] = json.loads(subprocess.check_output(command))
    return report


def _print(folder: Path, ranks: int, looked: tuple[float, float], report: dict[str, Any]) -> None:
    notes = report["notes"]
    pauses = {int(m[1]): (m[2], m[3]) for m in SAYS.finditer("\n".join(map(str, notes)))}
    print(f"verdict {report['verdict']}, looked at for {looked[1] - looked[0]:.1f} s")
    print("rank  steps  median before  median  longest before  longest  held up  paused at most")
    for rank in range(ranks):
        ends = _ends(folder, rank)
        steps = [(b, b - a) for a, b in itertools.pairwise(ends)]
        before = [took for end, took in steps if end < looked[0]][10:]
        during = [took for end, took in steps if looked[0] <= end <= looked[1]]
        usual = statistics.median(before)
        held = sum(took > LONG * usual for took in during)
        seconds, dumps = pauses.get(rank, ("?", "?"))
        print(
            f"{rank:4}  {len(during):5}  {_ms(usual):>13}  {_ms(statistics.median(during)):>6}  "
            f"{_ms(max(before)):>14}  {_ms(max(during)):>7}  {held:7}  "
            f"{seconds} s in {dumps} dumps"
        )


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


if __name__ == "__main__":
    sys.exit(main())

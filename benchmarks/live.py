"""How long ``whyhang --help``, ``whyhang LOGDIR`` and ``whyhang PID`` take, and bare py-spy.

Starts a torchrun job on the CPU (gloo) whose rank 1 blocks in its dataset, waits until it
hangs, then measures in turn. The bars: ``--help`` takes less than 0.2 s, a small folder of logs
(four ranks, one of which raised) less than 0.5 s, and ``whyhang PID`` with its two looks 1 s
apart less than 2.5 s. What follows has no bar and says where the time
goes: the same py-spy dumps run bare and at the same time, the collection of one look alone, and
the whole command with one look. Needs torch.

    python benchmarks/live.py [--ranks 8] [--workers 2] [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from whyhang.collectors.live.capture import Capture
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob, worth_reading
from whyhang.collectors.live.probes.probe import Options
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.stacks import pyspy

SCRIPT = """
import datetime, os
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 100000
    def __getitem__(self, index):
        if os.environ["RANK"] == "1" and index > 50:
            open(os.environ["PIPE"]).read()  # nobody ever writes to it
        return torch.ones(4)

if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=2))
    for batch in DataLoader(Slow(), batch_size=2, num_workers=int(os.environ["WORKERS"])):
        dist.all_reduce(batch)
"""

ENDS = {
    "raised": (
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 8, in main',
        "    check(batch)",
        "ValueError: the batch has 3 rows, 4 were asked for",
    ),
    "lost": (
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 9, in main',
        "    dist.all_reduce(x)",
        "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:27401",
    ),
}

BARE = "py-spy, bare"
BARS = {"--help": 0.2, "LOGDIR": 0.5, "PID": 2.5}
"""Seconds that a median may take."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        launcher = start(Path(folder), options.ranks, options.workers)
        try:
            job = wait_for_hang(launcher.pid, options.ranks, options.workers)
            # an installed package has its bytecode beside it; here it goes to the scratch folder
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            os.environ["PYTHONPYCACHEPREFIX"] = folder + "/bytecode"
            measure(launcher.pid, logs_of_ranks(Path(folder)), job, options.rounds)
        finally:
            end(launcher)
    return 0


def start(folder: Path, ranks: int, workers: int) -> subprocess.Popen[bytes]:
    """Start the job in a session of its own."""
    script = folder / "train.py"
    script.write_text(SCRIPT)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    pipe = folder / "shard-7"
    os.mkfifo(pipe)
    log = (folder / "log").open("wb")
    return subprocess.Popen(
        [*command, "--master-port", str(port), str(script)],
        env={**os.environ, "PIPE": str(pipe), "WORKERS": str(workers), "OMP_NUM_THREADS": "1"},
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def wait_for_hang(launcher: int, ranks: int, workers: int, limit: float = 180.0) -> HostJob:
    """Wait until all ranks and workers are there and none of them uses the processor."""
    until = time.monotonic() + limit
    before: dict[int, int] = {}
    while time.monotonic() < until:
        time.sleep(2)
        host = Host(Proc())
        job = find_job(host, launcher)
        ticks = {member.pid: host.stats[member.pid].cpu_ticks for member in job.members}
        if len(ticks) == 1 + ranks * (1 + workers) and _still(before, ticks):
            return job
        before = ticks
    raise SystemExit("the job did not come to hang; is torch installed?")


def _still(before: dict[int, int], now: dict[int, int]) -> bool:
    return all(now[pid] - before.get(pid, 0) <= 2 for pid in now)


def logs_of_ranks(folder: Path) -> Path:
    """Write what four ranks print of which one raises and the others lose their peer."""
    logs = folder / "logs"
    logs.mkdir()
    for rank in range(4):
        lines = [f"[rank {rank}] step {step} loss {2 - step / 10:.3f}" for step in range(7)]
        error = ENDS["raised" if rank == 2 else "lost"]
        (logs / f"rank_{rank}.log").write_text("\n".join([*lines, *error, ""]))
    return logs


def measure(pid: int, logs: Path, job: HostJob, rounds: int) -> None:
    """Run everything in turn, so that a busy machine disturbs all alike, and print medians."""
    pids = sorted(worth_reading(job.members))
    program = [sys.executable, "-m", "whyhang"]
    whole = [*program, str(pid), "--format", "json"]
    cases: dict[str, Callable[[], None]] = {
        "--help": lambda: command([*program, "--help"]),
        "LOGDIR": lambda: command([*program, str(logs)]),
        "PID": lambda: command(whole),
        "PID --looks 1": lambda: command([*whole, "--looks", "1"]),
        "collection alone": lambda: collect(pid),
        BARE: lambda: bare(pids),
    }
    trouble = try_once(whole)
    if trouble:
        raise SystemExit(f"whyhang failed: {trouble}")
    wall: dict[str, list[float]] = {name: [] for name in cases}
    busy: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            began, used = time.perf_counter(), processor_seconds()
            run()
            wall[name].append(time.perf_counter() - began)
            busy[name].append(processor_seconds() - used)
    base = statistics.median(wall[BARE])
    load = os.getloadavg()[0]
    print(
        f"{len(pids)} processes, median of {rounds} rounds, {os.cpu_count()} processors, "
        f"load {load:.1f}"
    )
    for name in cases:
        median, least = statistics.median(wall[name]), min(wall[name])
        print(
            f"{name:16} {median:7.3f} s   {median / base:5.2f} x bare   best {least:6.3f} s   "
            f"processor {statistics.median(busy[name]):6.3f} s   {verdict(name, median)}".rstrip()
        )


def verdict(name: str, seconds: float) -> str:
    """Hold a median against its bar, where there is one."""
    if name not in BARS:
        return ""
    kept = "kept" if seconds < BARS[name] else "NOT KEPT"
    return f"bar {BARS[name]:g} s: {kept}"


def processor_seconds() -> float:
    """Return the processor time of this process and of those it has waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def bare(pids: list[int]) -> None:
    """Run py-spy on all processes at once."""
    running = [
        subprocess.Popen(pyspy.command(pid), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for pid in pids
    ]
    for process in running:
        process.wait()


def collect(pid: int) -> None:
    """Collect without starting an interpreter or analyzing."""
    Capture(pid, Options(looks=1), lambda _: None).take().bundle()


def command(arguments: list[str]) -> None:
    """Run the whole command."""
    subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def try_once(arguments: list[str]) -> str:
    """Run the command for the first time; return the last thing it said if it failed."""
    done = subprocess.run(arguments, capture_output=True, check=False, text=True)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no word"])[-1]


def end(launcher: subprocess.Popen[bytes]) -> None:
    """End the job: torchrun ends its ranks when it is asked to end."""
    launcher.send_signal(signal.SIGTERM)
    try:
        launcher.wait(40)
    except subprocess.TimeoutExpired:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()


if __name__ == "__main__":
    raise SystemExit(main())

"""Time the reading of archived py-spy dumps, and the whole diagnosis of them.

Run ``python benchmarks/stacks.py [N ...]`` (default 1,000, 10,000 and 100,000). It writes N dumps
of 8 threads each, a folder for each node of 8 ranks, one rank stuck in its dataset, then runs
two fresh processes on them: one that only reads, one ``python -m whyhang DIR --format json``.
The bar is 10,000 dumps to the diagnosis in 20 s and 1 GB on 2 cores, growing linearly.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

PER_NODE = 8
BAR_SECONDS = 20.0  # for 10,000 dumps
BAR_MB = 1024.0

TRAIN = (
    "    train_step (pretrain.py:{line})\n"
    "    train (pretrain.py:412)\n"
    "    main (pretrain.py:530)\n"
    "    record.<locals>.wrap.<locals>.wrapper"
    " (torch/distributed/elastic/multiprocessing/errors/__init__.py:355)\n"
    "    <module> (pretrain.py:538)\n"
)
WAITING = (
    "    all_reduce (torch/distributed/distributed_c10d.py:2806)\n"
    "    _exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)\n"
    "    clip_gradients (optim/clip.py:61)\n" + TRAIN.format(line=298)
)
CULPRIT = (
    "    _read_shard (data/shards.py:77)\n"
    "    ShardedDataset.__getitem__ (data/shards.py:112)\n"
    "    _MapDatasetFetcher.fetch (torch/utils/data/_utils/fetch.py:54)\n"
    "    _SingleProcessDataLoaderIter._next_data (torch/utils/data/dataloader.py:789)\n"
    "    _BaseDataLoaderIter.__next__ (torch/utils/data/dataloader.py:733)\n"
    + TRAIN.format(line=283)
)
STARTED = (
    "    Thread._bootstrap_inner (threading.py:1045)\n    Thread._bootstrap (threading.py:1002)\n"
)
# Name, then frames; "{n}" is a line that differs from rank to rank.
_THREADS = """\
Thread-1 (_read_thread)
    _recv_msg (torch/_inductor/compile_worker/subproc_pool.py:53)
    SubprocPool._read_thread (torch/_inductor/compile_worker/subproc_pool.py:161)
    Thread.run (threading.py:982)

Thread-2
    Condition.wait (threading.py:331)
    Event.wait (threading.py:629)
    TMonitor.run (tqdm/_monitor.py:60)

QueueFeederThread
    Condition.wait (threading.py:327)
    Queue._feed (multiprocessing/queues.py:231)
    Thread.run (threading.py:982)

AsyncCheckpointExecutor_0
    _worker (concurrent/futures/thread.py:81)
    Thread.run (threading.py:982)

metrics
    sleep_until (util/metrics.py:{n})
    Thread.run (threading.py:982)

wandb-heartbeat
    _PollLikeSelector.select (selectors.py:415)
    Thread.run (threading.py:982)

prefetch
    Queue.get (queue.py:171)
    Prefetcher._run (data/prefetch.py:{n})
    Thread.run (threading.py:982)
"""
THREADS = tuple(thread.strip("\n").partition("\n") for thread in _THREADS.split("\n\n"))


def dump(pid: int, chance: random.Random, *, culprit: bool) -> str:
    """Write one dump the way py-spy 0.4 does."""
    head = (
        f"Process {pid}: /opt/conda/bin/python -u pretrain.py --config cfg/7b.yaml --seed 17\n"
        "Python v3.11.7 (/opt/conda/bin/python3.11)\n\n"
        f'Thread {pid} ({"idle" if culprit else "active"}): "MainThread"\n'
    )
    parts = [head, CULPRIT if culprit else WAITING]
    for number, (name, _, frames) in enumerate(THREADS, 1):
        tid = pid + 10 * number + chance.randrange(9)
        text = frames.format(n=chance.choice((31, 33, 40)))
        parts.append(f'Thread {tid} (idle): "{name}"\n{text}\n{STARTED}')
    return "".join(parts)


def generate(folder: Path, count: int) -> int:
    """Write ``count`` dumps; return the rank that holds the others up."""
    chance = random.Random(count)
    culprit = count // 3
    for rank in range(count):
        node = folder / f"node{rank // PER_NODE:05d}"
        node.mkdir(exist_ok=True)
        pid = 2000 + 97 * (rank % PER_NODE)
        text = dump(pid, chance, culprit=rank == culprit)
        (node / f"pyspy_rank{rank:06d}.txt").write_text(text)
    return culprit


READ = """
import sys
from whyhang.collectors import READERS
from whyhang.collectors.files.folder import read
from whyhang.analyzer.facts import StackDump
facts = list(read([sys.argv[1]], readers=READERS))
print(sum(isinstance(fact, StackDump) for fact in facts), len(facts))
"""


class Row(NamedTuple):
    """What one run took: wall and processor time in seconds, peak memory in MB."""

    wall: float
    cpu: float
    peak: float
    output: str

    def cells(self, count: int) -> str:
        """Print it in columns, with the processor time of one dump in microseconds."""
        each = self.cpu / count * 1e6
        return f"{self.wall:>8.2f} {self.cpu:>8.2f} {each:>8.0f} {self.peak:>8.0f}"


def timed(command: list[str]) -> Row:
    """Run a command to its end."""
    with tempfile.TemporaryFile("w+") as stdout:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=stdout)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{command[:4]} ended with {child.returncode}")
        stdout.seek(0)
        return Row(
            wall=wall,
            cpu=usage.ru_utime + usage.ru_stime,
            peak=usage.ru_maxrss / 1024,
            output=stdout.read(),
        )


def measure(folder: Path, count: int, *, whole: bool) -> None:
    """Print one row: the time and memory of reading alone, then of the whole."""
    culprit = generate(folder, count)
    reading = timed([sys.executable, "-c", READ, str(folder)])
    row = f"{count:>8,} {reading.cells(count)}"
    if reading.output.split()[0] != str(count):
        row += f"  only {reading.output.split()[0]} dumps read"
    if whole:
        run = timed([sys.executable, "-m", "whyhang", str(folder), "--format", "json"])
        findings = json.loads(run.output)["findings"]
        named = findings[0]["culprit_ranks"] if findings else None
        row += f" {run.cells(count)}  {'right' if named == [culprit] else f'wrong: {named}'}"
    print(row, flush=True)


def main() -> None:
    """Measure for each count on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("counts", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--read-only", action="store_true", help="leave the diagnosis out")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores; bar at 10,000 dumps: {BAR_SECONDS:.0f} s, {BAR_MB:.0f} MB")
    parts = ["reading alone"] if arguments.read_only else ["reading alone", "to the diagnosis"]
    columns = f"{'wall s':>8} {'cpu s':>8} {'us/dump':>8} {'peak MB':>8}"
    print(" " * 8 + "".join(f"{part:^36}" for part in parts))
    print(f"{'dumps':>8} " + " ".join([columns] * len(parts)))
    for count in arguments.counts:
        folder = Path(tempfile.mkdtemp(prefix="whyhang-stacks-"))
        try:
            measure(folder, count, whole=not arguments.read_only)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()

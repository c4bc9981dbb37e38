"""Dumps of a real torchrun job, made with each tool at hand, all tell the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stack_docs import functions

from whyhang.analyzer.facts import StackDump
from whyhang.collectors import READERS
from whyhang.collectors.files.folder import read
from whyhang.collectors.stacks import pyspy

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform != "linux", reason="Linux only")]

RANKS = 3
JOB = """
import faulthandler, os, pathlib, signal, time
import torch, torch.distributed as dist

faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)

def elsewhere():
    while True:
        time.sleep(1)

def train(rank):
    here = pathlib.Path(os.environ["JOB_FOLDER"], f"{rank}.pid")
    here.write_text(str(os.getpid()))
    if rank == 1:
        elsewhere()
    dist.all_reduce(torch.ones(1))

dist.init_process_group("gloo")
train(dist.get_rank())
"""
INNERMOST = {0: "all_reduce", 1: "elsewhere", 2: "all_reduce"}


class Job:
    """A hanging job: its folder, its launcher's pid, and the pid of each rank."""

    def __init__(self, folder: Path, launcher: int, pids: dict[int, int]) -> None:
        self.folder, self.launcher, self.pids = folder, launcher, pids


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Start a job of three ranks, wait until it hangs, and end it."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text(JOB)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    command += ["--tee", "3", "--log-dir", str(folder / "logs"), str(folder / "train.py")]
    environment = {**os.environ, "JOB_FOLDER": str(folder), "OMP_NUM_THREADS": "1"}
    with (
        (folder / "torchrun.log").open("w") as log,
        subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, start_new_session=True
        ) as launcher,
    ):
        try:
            yield Job(folder, launcher.pid, _wait(folder, launcher))
        finally:
            _end(launcher, folder)


def _end(launcher: subprocess.Popen[bytes], folder: Path) -> None:
    """End the launcher, which ends its workers; they are not in its process group."""
    launcher.terminate()
    try:
        launcher.wait(timeout=30)
    except subprocess.TimeoutExpired:
        launcher.kill()
    for file in folder.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def _wait(folder: Path, launcher: subprocess.Popen[bytes]) -> dict[int, int]:
    until = time.monotonic() + 120
    while time.monotonic() < until and launcher.poll() is None:
        files = [folder / f"{rank}.pid" for rank in range(RANKS)]
        if all(file.exists() and file.read_text() for file in files):
            time.sleep(1)
            return {rank: int(file.read_text()) for rank, file in enumerate(files)}
        time.sleep(0.2)
    pytest.fail((folder / "torchrun.log").read_text()[-2000:])


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(pyspy.explain_failure(done.stderr.decode())[0])
    return done.stdout.decode()


def places(*paths: Path) -> dict[int, set[str]]:
    """Give the functions of the main thread of each rank; the launcher has no rank."""
    by_rank: dict[int, set[str]] = {}
    for fact in read(paths, readers=READERS):
        if isinstance(fact, StackDump) and fact.who.rank is not None:
            main = next(thread for thread in fact.threads if thread.name == "MainThread")
            by_rank[fact.who.rank] = set(functions(main.frames))
    return by_rank


def check(by_rank: dict[int, set[str]]) -> None:
    assert sorted(by_rank) == list(range(RANKS))
    for rank, innermost in INNERMOST.items():
        assert {innermost, "train", "<module>"} <= by_rank[rank], (rank, by_rank[rank])


@pytest.mark.parametrize("option", ["", "--json", "--locals", "--native", "--subprocesses"])
def test_pyspy(job: Job, tmp_path: Path, option: str) -> None:
    """Each form of py-spy's output, a file for each rank."""
    for rank, pid in job.pids.items():
        options = [option] if option else []
        text = run(pyspy.executable(), "dump", *options, "--pid", str(pid))
        (tmp_path / f"rank{rank}.txt").write_text(text)

    check(places(tmp_path))


def test_pyspy_of_the_launcher(job: Job, tmp_path: Path) -> None:
    """One dump of the launcher with all below it: ranks by the order of their pids."""
    text = run(pyspy.executable(), "dump", "--subprocesses", "--pid", str(job.launcher))
    (tmp_path / "all.txt").write_text(text)

    check(places(tmp_path))


def test_faulthandler(job: Job) -> None:
    """Signals make each rank print its stacks into torchrun's logs."""
    for pid in job.pids.values():
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.5)
    time.sleep(1)
    (logs,) = (job.folder / "logs").iterdir()

    tops = {
        fact.who.local_rank: functions(fact.threads[-1].frames)[0]
        for path in (job.folder / "torchrun.log", logs)
        for fact in read([path], readers=READERS)
        if isinstance(fact, StackDump)
    }

    assert tops[1] == "elsewhere"
    assert set(tops) == {0, 1, 2}


def test_gdb(job: Job, tmp_path: Path) -> None:
    """Gdb's native stacks of a rank name the wait of the collective."""
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")
    pid = job.pids[0]
    text = run("gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt")
    (tmp_path / "gdb.txt").write_text(text)

    (dump,) = (fact for fact in read([tmp_path], readers=READERS) if isinstance(fact, StackDump))

    main = next(thread for thread in dump.threads if thread.name == "MainThread")
    assert dump.who.pid == pid
    assert any("c10d::" in name for name in functions(main.frames))

"""Jobs that are watched while they run: real processes, limits of seconds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

WORK = """
import os, sys, time
from pathlib import Path
import whyhang
rank, folder = int(os.environ["RANK"]), Path(sys.argv[1])
hangs_at = int(sys.argv[2])
for step in range(int(sys.argv[3])):
    whyhang.heartbeat(step)
    print("step", step, flush=True)
    while step == hangs_at and not (folder / "go").exists():
        with open(folder / "pipe") as pipe:  # nobody writes to it
            pipe.read()
    time.sleep(0.1)
sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with the program and a pipe that nobody writes to."""
    (tmp_path / "train.py").write_text(WORK)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@contextlib.contextmanager
def ranks(
    folder: Path, hangs_at: int, steps: int = 10_000
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run two ranks below this process, each with a log."""
    running = []
    for rank in range(2):
        environ = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(20000 + os.getpid() % 20000),
            "WHYHANG_HEARTBEAT_DIR": str(folder / "beats"),
        }
        with (folder / f"rank{rank}.log").open("wb") as log:
            command = [sys.executable, "train.py", str(folder), str(hangs_at), str(steps)]
            running.append(
                subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)
            )
    try:
        yield running
    finally:
        for each in running:
            each.kill()
            each.wait()


@contextlib.contextmanager
def watched(folder: Path, target: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Watch with a limit of 3 s; what it says goes to said.txt."""
    command = [sys.executable, "-m", "whyhang", "watch", target, "--stalled-for", "3", *options]
    with (folder / "said.txt").open("wb") as err, (folder / "out.txt").open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(folder: Path, text: str, *, count: int = 1, limit: float = 180.0) -> str:
    """Wait until it has said something so often; return all that it said.

    The limit is long, for the output of the tests is the launcher's, too: what other tests print
    counts as a sign of life, and each such doubles the patience.
    """
    end = time.monotonic() + limit
    while (text_so_far := (folder / "said.txt").read_text()).count(text) < count:
        assert time.monotonic() < end, text_so_far
        time.sleep(0.2)
    return text_so_far


def go_on(folder: Path) -> None:
    """End the wait of both ranks: somebody writes to the pipe."""
    (folder / "go").write_text("")
    with (folder / "pipe").open("w") as pipe:
        pipe.write("data")


def test_a_hang_is_reported_once_and_again_after_it_went_on(folder: Path) -> None:
    """The report is written, the command is run; SIGTERM ends it with 0, and the job goes on."""
    program = "open('hooked', 'a').write(__import__('sys').argv[1] + ' ')"
    hook = f'{sys.executable} -c "{program}" {{report}}'
    options = ("-o", "r.json", "--on-hang", hook, "--no-store")
    with ranks(folder, hangs_at=30) as job, watched(folder, str(job[0].pid), *options) as watch:
        until(folder, "HANG")
        time.sleep(6)
        go_on(folder)
        until(folder, "it goes on again")
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(20) == 0
        printed = until(folder, "told to end")
        assert all(each.poll() is None for each in job)

    assert printed.count("HANG") == 1
    assert (folder / "r.json").is_file()
    assert (folder / "hooked").read_text() == "r.json "


def test_the_end_of_a_job_ends_the_watch(folder: Path) -> None:
    """It says how the job ended, as far as that can be seen."""
    with ranks(folder, hangs_at=-1, steps=150) as job, watched(folder, str(job[0].pid)) as watch:
        printed = until(folder, "the job is over")
        assert watch.wait(10) == 0

    assert "HANG" not in printed


def test_ranks_that_end_one_after_another_are_no_new_start(folder: Path) -> None:
    """One is killed, the other goes on for a while."""
    with ranks(folder, hangs_at=-1, steps=100) as job, watched(folder, str(job[0].pid)) as watch:
        until(folder, "watching")
        job[1].kill()
        job[1].wait()
        printed = until(folder, "the job is over")
        assert watch.wait(10) == 0

    assert "started anew" not in printed


def test_a_folder_is_watched_by_what_is_written_to_it(folder: Path) -> None:
    """--once ends it with the exit code of a hang."""
    (folder / "run").mkdir()
    log = folder / "run" / "rank0.log"
    with watched(folder, "run", "--once") as watch:
        for step in range(25):
            with log.open("a") as file:
                file.write(f"epoch 1 step {step} loss 0.{step}\n")
            time.sleep(0.3)
        printed = until(folder, "NO PROGRESS")
        assert watch.wait(20) == 3

    assert "no sign of progress" in printed


AGAIN = """
import os, sys, time
rank, again = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
for step in range(60 if again else 30):
    if step == 20 and not again and rank == 1:
        sys.exit(1)
    print("attempt", again, "step", step, flush=True)
    time.sleep(0.2)
"""


def test_torchrun_starts_its_ranks_again(folder: Path) -> None:
    """The new ranks are followed, until the job is over."""
    pytest.importorskip("torch")
    (folder / "again.py").write_text(AGAIN)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            [*command, "2", "--max-restarts", "1", "again.py"], cwd=folder, stdout=log, stderr=log
        )
    try:
        with watched(folder, str(job.pid), "--stalled-for", "20", "--every", "1") as watch:
            printed = until(folder, "started anew", limit=90)
            printed = until(folder, "the job is over", limit=90)
            assert job.wait(10) == 0, (folder / "job.log").read_text()
            assert watch.wait(20) == 0
    finally:
        job.kill()
        job.wait()

    assert printed.count("started anew") == 1
    assert "HANG" not in printed

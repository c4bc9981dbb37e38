"""The logs of a live job, read beside its stacks: which files, whose they are, which not."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_sites import collected, site_of

from whyhang.analyzer.facts import Role, Trust
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob, JobProcess
from whyhang.collectors.live.probes import logs
from whyhang.collectors.live.proc import Proc

OLD = time.time() - 86400


@pytest.fixture
def printing(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process whose output goes to rank0.log."""
    with (tmp_path / "rank0.log").open("wb") as out:
        out.write(b"step 5\n")
        out.flush()
        running = subprocess.Popen(["sleep", "60"], stdout=out, stderr=out)
    yield running
    running.kill()
    running.wait()


def _brought(host: Host, job: HostJob) -> dict[str, tuple[int | None, bytes]]:
    evidence = collected(logs.collect, site_of(host, job))
    return {file.entry.path: (file.entry.rank, file.data) for file in evidence.files}


def test_the_log_of_a_rank_and_of_those_that_ended(
    tmp_path: Path, printing: subprocess.Popen[bytes]
) -> None:
    """A rank's own output is its own; a file beside it that differs by its number is another's.

    What was last written before the job began is an earlier job's, and source is no log.
    """
    (tmp_path / "rank5.log").write_text("rank < size. 5 vs 4\n")
    (tmp_path / "rank7.log").write_text("done\n")
    os.utime(tmp_path / "rank7.log", (OLD, OLD))
    (tmp_path / "train1.py").write_text("print()\n")
    rank = JobProcess(pid=printing.pid, ppid=1, role=Role.RANK, rank=0, trust=Trust.ENVIRONMENT)

    assert _brought(Host(Proc()), HostJob(members=(rank,))) == {
        "logs/rank0.log": (0, b"step 5\n"),
        "logs/rank5.log": (5, b"rank < size. 5 vs 4\n"),
    }


def test_the_log_of_who_has_ended_since_is_read_to_its_end(
    tmp_path: Path, printing: subprocess.Popen[bytes]
) -> None:
    """Nobody has it open any more, and what was printed last tells whether the end was planned."""
    rank = JobProcess(pid=printing.pid, ppid=1, role=Role.RANK, rank=0, trust=Trust.ENVIRONMENT)
    site = site_of(Host(Proc()), HostJob(members=(rank,)))
    before = list(logs.candidates(site))
    printing.kill()
    printing.wait()
    (tmp_path / "rank0.log").write_text("step 5\ntraining finished\n")

    assert [(shown, who.rank) for _, shown, who in before] == [(f"{tmp_path}/rank0.log", 0)]
    (file,) = collected(logs.collect, site).files
    assert (file.entry.rank, file.data) == (0, b"step 5\ntraining finished\n")


def test_what_a_script_names_once_its_ranks_have_ended(tmp_path: Path) -> None:
    """Nobody has the files open any more; the script that started the ranks says where they are."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "stderr.log").write_text("ValueError: bad row\n")
    (tmp_path / "train.log").write_text("step 5\n")
    (tmp_path / "entry.sh").write_text(
        f'DIR={tmp_path}\n: torchrun --log-dir "$DIR/out" x.py > train.log 2>&1\nsleep 60\n'
    )
    entry = subprocess.Popen(["sh", "entry.sh"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        host = Host(Proc())
        brought = _brought(host, find_job(host, entry.pid))
    finally:
        subprocess.run(["pkill", "-P", str(entry.pid)], check=False)
        entry.kill()
        entry.wait()

    assert {name: data for name, (_, data) in brought.items()} == {
        "logs/stderr.log": b"ValueError: bad row\n"
    }

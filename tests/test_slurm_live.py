"""Jobs of four nodes with two ranks each that truly hang, diagnosed through a real Slurm."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from whyhang.samples.harness.little_slurm import LittleSlurm, free_ports

PROGRAMS = ("slurmctld", "slurmd", "srun", "munged", "unshare")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="Linux and root only"),
    pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="needs Slurm and munge"),
]
TRAIN = Path(__file__).with_name("programs") / "train_hangs.py"
PROLOG = """#!/bin/sh
[ -e {folder}/stuck-$SLURMD_NODENAME ] && exec sleep 300
exit 0
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LittleSlurm]:
    with LittleSlurm(4, "TaskProlog={folder}/prolog.sh") as slurm:
        prolog = slurm.folder / "prolog.sh"
        prolog.write_text(PROLOG.format(folder=slurm.folder))
        prolog.chmod(0o755)
        yield slurm
    assert slurm.processes() == []


@contextlib.contextmanager
def job(cluster: LittleSlurm, how: str, rank: int) -> Iterator[tuple[str, int]]:
    """Start a job that hangs; give its number and the PID of its srun."""
    settings = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1"}
    settings["MASTER_PORT"] = str(free_ports(1)[0])
    words = ["srun", "--nodes=4", "--ntasks-per-node=2", sys.executable, str(TRAIN), how, str(rank)]
    output = cluster.folder / "job.log"
    with output.open("wb") as log:
        srun = subprocess.Popen(words, env=cluster.environ | settings, stdout=log, stderr=log)
    number = ""
    try:
        deadline = time.monotonic() + 120
        while output.read_text().count("ready") < 8:
            assert srun.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.2)
        time.sleep(1)
        number = cluster.ask("squeue", "--noheader", "--format=%A").split()[0]
        yield number, srun.pid
    finally:
        cluster.ask("scancel", number or "--user=root")
        srun.kill()
        srun.wait()


def whyhang(cluster: LittleSlurm, *words: str) -> dict[str, Any]:
    """Return the report; nothing may be left of the looking."""
    command = [sys.executable, "-m", "whyhang", *words, "--format", "json"]
    done = subprocess.run(command, env=cluster.environ, capture_output=True, text=True, timeout=90)
    assert done.stdout, done.stderr
    steps = cluster.ask("squeue", "--noheader", "--steps", "--format=%i")
    assert all(step.endswith(".0") for step in steps.split()), steps
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def blamed(report: dict[str, Any]) -> tuple[str, list[int], str]:
    first = report["findings"][0]
    return first["category"], first["culprit_ranks"], (first["location"] or {}).get("function", "")


ELSEWHERE = ("missing-rank-in-collective", [3], "stage_checkpoint")


def test_a_rank_that_waits_for_its_data_loader(cluster: LittleSlurm) -> None:
    """Its worker is on another node than the one that asks."""
    with job(cluster, "loader", 6) as (number, _):
        category, ranks, function = blamed(whyhang(cluster, "--slurm", number))

    assert (category, ranks, function) == ("dataloader-blocked", [6], "__getitem__")


def test_a_rank_that_is_elsewhere(cluster: LittleSlurm) -> None:
    """From the login side by job and by the PID of srun, from a node by the PID of a rank.

    Then a node's collector hangs, and then a slurmd is killed: what is left is diagnosed.
    """
    with job(cluster, "elsewhere", 3) as (number, srun):
        for target in (("--slurm", number), ("--slurm", f"{number}.0"), (str(srun),)):
            report = whyhang(cluster, *target)
            assert blamed(report) == ELSEWHERE
            assert report["gaps"] == []
            assert {row["host"] for row in report["ranks"]} == {"n1", "n2", "n3", "n4"}
            assert len(report["ranks"]) == 8

        inside = ["srun", f"--jobid={number}", "--overlap", "--nodelist=n4", "--ntasks=1"]
        script = f'exec {sys.executable} -m whyhang $(pgrep -of "{TRAIN.name}") --format json'
        from_node = subprocess.run(
            [*inside, "--nodes=1", "sh", "-c", script],
            env=cluster.environ,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert blamed(json.loads(from_node.stdout)) == ELSEWHERE
        assert "4 nodes of Slurm job" in from_node.stderr

        stuck = cluster.folder / "stuck-n4"
        stuck.touch()
        report = whyhang(cluster, "--slurm", number)
        stuck.unlink()
        assert blamed(report) == ELSEWHERE
        assert any("host n4" in gap and "no sign of life" in gap for gap in report["gaps"])
        assert [row["host"] for row in report["ranks"] if row["state"] == "unreachable"] == [
            "n4",
            "n4",
        ]

        cluster.kill("n1")
        report = whyhang(cluster, "--slurm", number)
        assert blamed(report) == ELSEWHERE
        assert any("host n1" in gap and "slurmd does not answer" in gap for gap in report["gaps"])

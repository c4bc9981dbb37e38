"""``--on``: a real Slurm cluster and a real Ray cluster read the files; the report is the same."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from whyhang.samples.harness.little_ray import LittleRay
from whyhang.samples.harness.little_slurm import LittleSlurm
from whyhang.samples.harness.scenario import samples

PROGRAMS = ("slurmctld", "slurmd", "srun", "munged", "unshare")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="Linux and root only"),
]
needs_slurm = pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)), reason="needs Slurm and munge"
)
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay out what many hosts left: archives, plain files, some with more behind them."""
    place = tmp_path_factory.mktemp("left")
    for name, sample in samples().items():
        if name.startswith(("fr-", "slurm", "dataloader")):
            shutil.copy(sample.bundle, place / f"{name}.tar.zst")
    for number in range(40):
        (place / f"rank{number}.log").write_text(f"[rank{number}]: RuntimeError: boom\n" * 500)
    return place


def whyhang(folder: Path, environ: Mapping[str, str], *on: str) -> tuple[bytes, str]:
    """Return the report, and what was said beside it."""
    ran = subprocess.run(
        [sys.executable, "-m", "whyhang", str(folder), "--format", "json", *on],
        env=environ, capture_output=True, timeout=200, check=False,
    )  # fmt: skip
    errors = ran.stderr.decode()
    assert ran.returncode == 0, errors
    return ran.stdout, errors


@pytest.fixture(scope="module")
def slurm() -> Iterator[tuple[LittleSlurm, str]]:
    """Start a cluster of three nodes and a job that holds them."""
    with LittleSlurm(3) as cluster:
        held = ["salloc", "--no-shell", "--nodes=3", "--job-name=held"]
        subprocess.run(held, env=cluster.environ, check=True, capture_output=True)
        yield cluster, cluster.ask("squeue", "--noheader", "--format=%A").split()[0]
    assert cluster.processes() == []


@needs_slurm
def test_nodes_of_a_job_read_and_the_report_is_that_of_one_machine(
    slurm: tuple[LittleSlurm, str], folder: Path
) -> None:
    """Byte for byte; from outside the job, and from inside it with a relative path."""
    cluster, job = slurm
    here, _ = whyhang(folder, cluster.environ)
    assert whyhang(folder, cluster.environ, "--on", f"slurm:{job}") == (here, "")
    inside = {**cluster.environ, "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "n[1-3]"}
    relative = Path(os.path.relpath(folder))
    assert whyhang(relative, inside, "--on", "slurm") == (here, "")
    assert cluster.ask("squeue", "--steps", "--noheader").count(".") <= 1  # that of the job itself


@needs_slurm
def test_a_node_that_does_not_answer_is_done_without(
    slurm: tuple[LittleSlurm, str], folder: Path
) -> None:
    """The others read; it is said on standard error, and the report is the same."""
    cluster, job = slurm
    here, _ = whyhang(folder, cluster.environ)
    cluster.kill("n2")
    report, errors = whyhang(folder, cluster.environ, "--on", f"slurm:{job}")
    assert report == here
    assert "whyhang: no worker on n2: srun: error: " in errors


@needs_ray
def test_nodes_of_ray_read_and_the_report_is_that_of_one_machine(folder: Path) -> None:
    """Byte for byte, on two nodes; no actor stays behind."""
    with LittleRay(2) as cluster:
        here, _ = whyhang(folder, cluster.environ)
        assert whyhang(folder, cluster.environ, "--on", f"ray:{cluster.address}") == (here, "")
        assert whyhang(folder, cluster.environ, "--on", "ray") == (here, "")

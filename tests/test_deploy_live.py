"""The files in docs/deploy do what they say, as far as one machine can show it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from whyhang.samples.harness.little_slurm import LittleSlurm

pytestmark = [pytest.mark.live, pytest.mark.repo]

DEPLOY = Path(__file__).parent.parent / "docs" / "deploy"
HANGS = """
import os, sys, time
print("step 1 of rank", os.environ.get("RANK"), flush=True)
if "ends" in sys.argv:
    time.sleep(3)
    sys.exit(9)
time.sleep(1000)
"""


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    """Give an environment in which whyhang and the program are found."""
    (tmp_path / "bin").mkdir()
    command = f'#!/bin/sh\nexec {sys.executable} -m whyhang "$@"\n'
    (tmp_path / "bin" / "whyhang").write_text(command)
    (tmp_path / "bin" / "whyhang").chmod(0o755)
    (tmp_path / "train.py").write_text(HANGS)
    return {
        **os.environ,
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "WHYHANG_OPTIONS": "--stalled-for 4",
        "WHYHANG_OUT": str(tmp_path / "out"),
    }


def until(folder: Path, pattern: str, limit: float = 90.0) -> Path:
    """Wait until there is a file of that name that holds something."""
    end = time.monotonic() + limit
    while not (files := [each for each in folder.glob(pattern) if each.stat().st_size]):
        assert time.monotonic() < end, list(folder.rglob("*"))
        time.sleep(0.3)
    return files[0]


def test_the_wrapper_watches_and_passes_on(tmp_path: Path, environ: Mapping[str, str]) -> None:
    """The report is written; the exit code is the command's, and SIGTERM reaches it."""
    (tmp_path / "out").mkdir()
    script = ["sh", str(DEPLOY / "watched.sh"), sys.executable, "train.py"]
    done = subprocess.run([*script, "ends"], cwd=tmp_path, env=environ, check=False)
    assert done.returncode == 9

    wrapper = subprocess.Popen(script, cwd=tmp_path, env=environ)
    until(tmp_path / "out", "whyhang-*.md")
    wrapper.send_signal(signal.SIGTERM)

    assert wrapper.wait(30) == 128 + signal.SIGTERM


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("slurmctld") is None, reason="needs root and Slurm"
)
def test_the_batch_script_watches_its_job(tmp_path: Path, environ: Mapping[str, str]) -> None:
    """Over two nodes: a report once it is silent, and the evidence before the time limit."""
    with LittleSlurm(2) as cluster:
        environ = {
            **environ,
            "SLURM_CONF": cluster.environ["SLURM_CONF"],
            "TRAIN": f"{sys.executable} {tmp_path}/train.py",
        }
        submit = ["sbatch", "--parsable", "--time=2", str(DEPLOY / "slurm-job.sh")]
        subprocess.run(submit, cwd=tmp_path, env=environ, check=True, capture_output=True)
        report = until(tmp_path, "out.md").read_text()
        until(tmp_path, "out.end.tar.zst")

    assert "n1, n2" in report


def test_the_prolog_sets_what_is_not_set() -> None:
    """What a job sets itself counts."""
    environ = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": "/work"}
    environ["TORCH_FR_BUFFER_SIZE"] = "20"
    script = ["sh", str(DEPLOY / "slurm-task-prolog.sh")]
    done = subprocess.run(script, env=environ, capture_output=True, text=True, check=True).stdout

    assert "export TORCH_FR_DUMP_TEMP_FILE=/work/fr-7-rank_\n" in done
    assert "TORCH_FR_BUFFER_SIZE" not in done


def test_the_epilog_reports_on_what_is_left(tmp_path: Path, environ: Mapping[str, str]) -> None:
    """Of the first task only, and never with an error."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rank0.log").write_text("RuntimeError: CUDA error: out of memory\n")
    script = ["sh", str(DEPLOY / "slurm-epilog.sh")]
    for rank in ("1", "0"):
        assert not (tmp_path / "out.epilog.md").exists()
        subprocess.run(script, env={**environ, "SLURM_PROCID": rank}, check=True)

    assert (tmp_path / "out.epilog.md").stat().st_size


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_one() -> None:
    """Systemd finds nothing but that whyhang is not installed where the unit expects it."""
    command = ["systemd-analyze", "verify", str(DEPLOY / "whyhang-watch@.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()

    assert [each for each in lines if "whyhang" in each and "is not executable" not in each] == []


def test_the_sidecar_sees_the_ranks() -> None:
    """One process namespace, the right to trace, and a place that both write to."""
    [pod] = yaml.safe_load_all((DEPLOY / "kubernetes-sidecar.yaml").read_text())
    spec = pod["spec"]
    job, sidecar = spec["containers"]

    assert spec["shareProcessNamespace"] is True
    assert sidecar["securityContext"]["capabilities"]["add"] == ["SYS_PTRACE"]
    assert job["volumeMounts"] == sidecar["volumeMounts"]
    assert spec["volumes"][0]["name"] == job["volumeMounts"][0]["name"]
    subprocess.run(["sh", "-n", "-c", sidecar["command"][2]], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for processes of its own")
def test_the_sidecar_finds_the_launcher_and_not_itself(
    tmp_path: Path, environ: Mapping[str, str]
) -> None:
    """It begins before the launcher does, and its own command line names the launcher, too."""
    [pod] = yaml.safe_load_all((DEPLOY / "kubernetes-sidecar.yaml").read_text())
    script = pod["spec"]["containers"][1]["command"][2].replace("sleep 5", "sleep 0.2")
    stub = tmp_path / "bin" / "whyhang"
    stub.write_text('#!/bin/sh\necho "$@"; tr "\\0" " " <"/proc/$2/cmdline"\n')
    stub.chmod(0o755)
    namespace = ["unshare", "--fork", "--pid", "--kill-child", "--mount-proc", "bash", "-c"]
    start = '(sleep 1; exec -a "$NAME" sleep 60) & exec "$@"'
    asked = subprocess.run(
        [*namespace, start, "bash", "sh", "-c", script],
        env={**environ, "SLACK_WEBHOOK": "x", "NAME": "torchrun"},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout.splitlines()

    assert asked[0].split()[0] == "watch"
    assert asked[1].split() == ["torchrun", "60"]

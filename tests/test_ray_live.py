"""A TorchTrainer on three nodes of a real Ray cluster that truly hangs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whyhang.samples.harness.little_ray import LittleRay

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="Linux and root only"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray[default,train]"),
]
TRAIN = Path(__file__).with_name("programs") / "train_ray.py"


def whyhang(cluster: LittleRay, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "whyhang", "--ray", *words]
    return subprocess.run(command, env=cluster.environ, capture_output=True, text=True, timeout=120)


def test_workers_of_ray_train(tmp_path: Path) -> None:
    """The one that waits for its shard is named, with its rank, its node and its line."""
    with LittleRay(3) as cluster:
        with (tmp_path / "driver.log").open("wb") as log:
            driver = subprocess.Popen(
                [sys.executable, str(TRAIN), str(tmp_path)],
                env={**cluster.environ, "OMP_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
            )
        try:
            deadline = time.monotonic() + 120
            while len(list(tmp_path.glob("ready-*"))) < 4:
                assert driver.poll() is None, (tmp_path / "driver.log").read_text()
                assert time.monotonic() < deadline, (tmp_path / "driver.log").read_text()
                time.sleep(0.5)
            time.sleep(2)

            planned = whyhang(cluster, "--dry-run")
            assert planned.stdout.startswith("3 nodes of Ray job 01000000 (4 RayTrainWorker)")
            assert "run --node=" in planned.stdout

            done = whyhang(cluster, "--format", "json", "--timeout", "60")
            assert done.stdout, done.stderr
            report = json.loads(done.stdout)
            assert report["findings"], done.stdout
            first = report["findings"][0]
            assert report["gaps"] == []
            assert first["category"] == "missing-rank-in-collective"
            assert first["culprit_ranks"] == [1]
            assert first["location"]["function"] == "staged_shard"
            assert {row["host"] for row in report["ranks"]} == {"r1", "r2", "r3"}
            assert sorted(row["rank"] for row in report["ranks"]) == [0, 1, 2, 3]
            assert "WhyhangRunner" not in processes(), "an actor of ours is left"
        finally:
            driver.kill()
            driver.wait()


def processes() -> str:
    deadline = time.monotonic() + 5
    while True:
        listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True)
        if "WhyhangRunner" not in listed.stdout or time.monotonic() > deadline:
            return listed.stdout
        time.sleep(0.2)

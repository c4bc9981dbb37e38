"""A job in pods that truly hangs, diagnosed by a real kubectl through an API server of our own."""

from __future__ import annotations

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
from kube_api import KubeApi, pod

from whyhang.samples.harness.little_slurm import free_ports

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="Linux and root only"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl"),
]
TRAIN = str(Path(__file__).with_name("programs") / "train_hangs.py")
PREFIX = "training.kubeflow.org"
PENDING = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available"}
    ],
}


def labels(role: str, index: int) -> dict[str, str]:
    return {
        f"{PREFIX}/job-name": "bert",
        f"{PREFIX}/replica-type": role,
        f"{PREFIX}/replica-index": str(index),
    }


@pytest.fixture(scope="module")
def api() -> Iterator[KubeApi]:
    """Start the job: a master and two workers, of which the last one goes elsewhere."""
    pods = [pod(f"bert-worker-{n}", labels("worker", n)) for n in (1, 0)]
    pods.append(pod("bert-master-0", labels("master", 0)))
    settings = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1"}
    settings |= {"MASTER_PORT": str(free_ports(1)[0]), "WORLD_SIZE": "3"}
    with KubeApi(pods) as server:
        outputs = [
            server.start(
                name, [sys.executable, TRAIN, "elsewhere", "2"], {**settings, "RANK": str(rank)}
            )
            for rank, name in enumerate(("bert-master-0", "bert-worker-0", "bert-worker-1"))
        ]
        deadline = time.monotonic() + 90
        while not all("ready" in output.read_text() for output in outputs):
            assert time.monotonic() < deadline, [output.read_text() for output in outputs]
            time.sleep(0.2)
        time.sleep(1)
        yield server


def whyhang(api: KubeApi, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "whyhang", "--k8s", "pytorchjob/bert", *words]
    return subprocess.run(command, env=api.environ, capture_output=True, text=True, timeout=90)


def report_of(api: KubeApi, *words: str) -> dict[str, Any]:
    """Diagnose; nothing may be left in a pod."""
    done = whyhang(api, *words, "--format", "json")
    assert done.stdout, done.stderr
    for name in ("bert-master-0", "bert-worker-0", "bert-worker-1"):
        left = [line for line in api.processes(name).splitlines()[1:] if TRAIN not in line]
        assert all(line.startswith(("ps ", "sleep infinity")) for line in left), left
    report: dict[str, Any] = json.loads(done.stdout)
    first = report["findings"][0]
    assert (first["category"], first["culprit_ranks"]) == ("missing-rank-in-collective", [2])
    assert first["location"]["function"] == "stage_checkpoint"
    return report


def test_ranks_in_pods(api: KubeApi) -> None:
    """Each rank is named with its pod."""
    report = report_of(api, "-n", "ml")

    assert report["gaps"] == []
    assert [(row["rank"], row["host"]) for row in report["ranks"]] == [
        (0, "bert-master-0"),
        (1, "bert-worker-0"),
        (2, "bert-worker-1"),
    ]


def test_the_bundle_of_all_pods_says_the_same_and_keeps_no_secret(
    api: KubeApi, tmp_path: Path
) -> None:
    """What the API says of the pods is in it, without what they were told to run."""
    bundle = tmp_path / "bundle"
    live = report_of(api, "--save", str(bundle))
    again = subprocess.run(
        [sys.executable, "-m", "whyhang", str(bundle), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert json.loads(again.stdout)["findings"] == live["findings"]
    assert json.loads((bundle / "hosts.pods.json").read_text())["items"]
    kept = b"".join(path.read_bytes() for path in bundle.rglob("*") if path.is_file())
    assert b"not-for-a-bundle" not in kept


def test_a_pod_whose_node_does_not_answer_is_a_gap(api: KubeApi) -> None:
    """So is one that waits to be scheduled; what is left is diagnosed."""
    api.pods["bert-worker-2"] = pod("bert-worker-2", labels("worker", 2), status=PENDING)
    api.silent.add("bert-worker-0")
    try:
        done = whyhang(api, "--format", "json", "--timeout", "60")
    finally:
        api.silent.clear()
        del api.pods["bert-worker-2"]
    report = json.loads(done.stdout)

    assert any("bert-worker-0" in gap and "no sign of life" in gap for gap in report["gaps"])
    assert any("pod bert-worker-2: it is Pending" in gap for gap in report["gaps"])
    first = report["findings"][0]  # the pod that waits is one more than the job has ranks
    assert first["location"]["function"] == "stage_checkpoint"
    assert first["culprit_ranks"] in ([2], None)  # of two ranks that are seen


def test_a_dry_run_reaches_no_pod(api: KubeApi) -> None:
    """It prints the commands that it would run."""
    before = len(api.asked)
    done = whyhang(api, "--dry-run")

    assert [line.partition(" sh -c ")[0] for line in done.stdout.splitlines()] == [
        "3 pods of PyTorchJob bert by kubectl exec",
        (
            "bert-master-0, bert-worker-0, bert-worker-1: NAME is each of these: "
            "kubectl exec --stdin --namespace=ml NAME --container=pytorch -- COMMAND"
        ),
        "COMMAND is",
    ]
    assert not any("exec" in path for path in api.asked[before:])

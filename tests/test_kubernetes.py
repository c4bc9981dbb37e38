"""From what the API says of pods to the way into each; no Kubernetes is needed for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kube_api import pod
from log_docs import diagnosed_files

from whyhang.analyzer.errors import TargetError
from whyhang.collectors.cluster.pod_list import in_order, pods_in, without_specifications
from whyhang.collectors.hosts import remote_host
from whyhang.collectors.hosts.planners import kubernetes
from whyhang.collectors.hosts.planners.kubernetes import Pods

JOB = "training.kubeflow.org/job-name"
ROLE = "training.kubeflow.org/replica-type"
INDEX = "training.kubeflow.org/replica-index"


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "pytorch", "state": state}]}


def after(reason: str, code: int) -> dict[str, Any]:
    """Describe a container that runs again after it has ended."""
    last = {"terminated": {"reason": reason, "exitCode": code}}
    one = {"name": "pytorch", "restartCount": 2, "state": {"running": {}}, "lastState": last}
    return {"phase": "Running", "containerStatuses": [one]}


UNSCHEDULED = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
        }
    ],
}


def pytorchjob(*statuses: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Describe a master and workers, in the order in which an API server may list them."""
    pods = [pod("bert-master-0", {JOB: "bert", ROLE: "master", INDEX: "0"}, status=statuses[0])]
    pods += [
        pod(f"bert-worker-{n}", {JOB: "bert", ROLE: "worker", INDEX: f"{n}"}, status=status)
        for n, status in enumerate(statuses[1:])
    ]
    return pods[::-1]


def listed(pods: list[dict[str, Any]]) -> bytes:
    return json.dumps({"kind": "List", "items": pods}, indent=1).encode()


def test_a_pod_is_reached_by_exec_word_by_word() -> None:
    """The container is the trainer's, not the one of the service mesh."""
    asked = Pods(selector="pytorchjob/bert", namespace="ml")
    reach = kubernetes.plan(asked, pods_in(listed(pytorchjob(None, None))))

    assert reach.sentence == "2 pods of PyTorchJob bert by kubectl exec"
    assert [host.name for host in reach.hosts] == ["bert-master-0", "bert-worker-0"]
    assert " ".join(reach.hosts[1].command(("true",))) == (
        "kubectl exec --stdin --namespace=ml bert-worker-0 --container=pytorch -- true"
    )
    assert " ".join(kubernetes.get_pods(asked)) == (
        "kubectl get pods --namespace=ml --selector=training.kubeflow.org/job-name=bert "
        "--output=json --request-timeout=15s"
    )


def test_an_ephemeral_container_is_added_only_where_asked_for() -> None:
    """It shares the processes of the container that is named."""
    asked = Pods(selector="app=x", container="pytorch", debug_image="python:3.12-slim")
    reach = kubernetes.plan(asked, pods_in(listed(pytorchjob(None))))

    assert reach.sentence == "1 pod of PyTorchJob bert by kubectl debug"
    assert " ".join(reach.hosts[0].command(("true",))) == (
        "kubectl debug --stdin --quiet --namespace=ml bert-master-0 --target=pytorch "
        "--image=python:3.12-slim --profile=general -- true"
    )


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([{JOB: "a", INDEX: "10"}, {JOB: "a", INDEX: "9"}, {JOB: "a", INDEX: "1"}], "PyTorchJob a"),
        (
            [
                {JOB: "a", INDEX: "1", "training.kubeflow.org/operator-name": "mpi-operator"},
                {
                    JOB: "a",
                    "training.kubeflow.org/job-role": "launcher",
                    "training.kubeflow.org/operator-name": "mpi-operator",
                },
            ],
            "MPIJob a",
        ),
        (
            [
                {
                    "jobset.sigs.k8s.io/jobset-name": "a",
                    "jobset.sigs.k8s.io/job-global-index": job,
                    "batch.kubernetes.io/job-completion-index": index,
                }
                for job, index in (("1", "1"), ("1", "0"), ("0", "3"))
            ],
            "JobSet a",
        ),
        (
            [
                {
                    "leaderworkerset.sigs.k8s.io/name": "a",
                    "leaderworkerset.sigs.k8s.io/group-index": "0",
                    "leaderworkerset.sigs.k8s.io/worker-index": index,
                }
                for index in ("12", "3", "0")
            ],
            "LeaderWorkerSet a",
        ),
        (
            [
                {"ray.io/cluster": "a", "ray.io/node-type": "worker"},
                {"ray.io/cluster": "a", "ray.io/node-type": "head"},
            ],
            "RayCluster a",
        ),
    ],
)
def test_pods_stand_in_the_order_of_their_ranks(labels: list[dict[str, str]], kind: str) -> None:
    """Each operator numbers its pods in labels of its own; names and listings are in any order."""
    pods = [pod(f"p{len(labels) - n}", each) for n, each in enumerate(labels)]
    reach = kubernetes.plan(Pods(selector="x=y"), pods_in(listed(pods)))

    assert [host.name for host in reach.hosts] == [f"p{n + 1}" for n in range(len(labels))]
    assert kind in reach.sentence


def test_pods_that_do_not_run_are_gaps_with_what_holds_them() -> None:
    """Those that run are reached."""
    crashing = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container")
    pods = pods_in(listed(pytorchjob(None, UNSCHEDULED, crashing)))
    reach = kubernetes.plan(Pods(selector="x=y"), pods)

    assert reach.sentence == "1 of 3 pods of PyTorchJob bert by kubectl exec"
    assert [(gap.what, gap.why) for gap in reach.gaps] == [
        (
            "pod bert-worker-0",
            "it is Pending: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
        ),
        ("pod bert-worker-1", "it is CrashLoopBackOff: back-off 5m0s restarting failed container"),
    ]


def test_pods_of_several_jobs_are_not_mixed() -> None:
    """A label like app=training fits too many."""
    pods = [pod("a", {JOB: "a"}), pod("b", {JOB: "b"})]
    with pytest.raises(TargetError, match="PyTorchJob a, PyTorchJob b"):
        kubernetes.plan(Pods(selector="app=training"), pods_in(listed(pods)))


@pytest.mark.parametrize(
    ("pods", "asked", "words"),
    [
        ([], Pods(selector="x=y", namespace="ml"), "no pod matches x=y in namespace ml"),
        ([pod("a", {})], Pods(selector="x=y", container="main"), "has no container main"),
    ],
)
def test_what_is_not_there_is_reported(pods: list[dict[str, Any]], asked: Pods, words: str) -> None:
    """With a command that shows what there is."""
    with pytest.raises(TargetError, match=words) as caught:
        kubernetes.plan(asked, pods_in(listed(pods)))

    assert caught.value.remedy


def test_of_what_kubectl_prints_the_last_word_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library below it logs each of its tries, at length, before it says what is wrong."""
    script = tmp_path / "kubectl"
    script.write_text(
        "#!/bin/sh\nfor i in 1 2 3; do\n"
        "echo 'E1122 22:49:18.064757    6365 memcache.go:265] \"Unhandled Error\" err=x' >&2\n"
        "done\n[ -n \"$SHORT\" ] || echo 'The connection to the server was refused' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(TargetError) as caught:
        kubernetes.reach(Pods(selector="a=b"))
    assert caught.value.message.count("\n") == 0
    assert caught.value.message.endswith("The connection to the server was refused")
    monkeypatch.setenv("SHORT", "1")
    with pytest.raises(TargetError, match="memcache"):
        kubernetes.reach(Pods(selector="a=b"))


def test_an_unknown_kind_of_job_is_refused() -> None:
    """Its label cannot be guessed."""
    with pytest.raises(TargetError, match="sparkjob is no kind"):
        kubernetes.get_pods(Pods(selector="sparkjob/x"))


def test_what_is_kept_of_pods_holds_no_specification() -> None:
    """Environment variables of containers may be secrets; nothing else is lost."""
    data = listed(pytorchjob(None, UNSCHEDULED))
    kept = without_specifications(data)

    assert b"not-for-a-bundle" in data
    assert b"not-for-a-bundle" not in kept
    assert [(p.name, p.state, p.place) for p in pods_in(kept)] == [
        (p.name, p.state, p.place) for p in pods_in(data)
    ]


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (waiting("ImagePullBackOff"), "ImagePullBackOff"),
        (after("OOMKilled", 137), "OOMKilled"),
        (after("Error", 1), "Running"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted"),
        ({"phase": "Succeeded"}, "Succeeded"),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "init-pytorch", "state": {"running": {}}}],
            },
            "Init:0/1",
        ),
        ({}, "Unknown"),
        ({"containerStatuses": 7, "conditions": [1, None]}, "Unknown"),
    ],
)
def test_the_state_of_a_pod_is_the_word_of_kubectl(status: dict[str, Any], state: str) -> None:
    """With one exception: a container that was killed for its memory and runs anew."""
    assert pods_in(listed([pod("p", {}, status=status or {"x": 0})]))[0].state == state


@pytest.mark.parametrize(
    ("status", "signature"),
    [
        (UNSCHEDULED, "scheduler-not-started"),
        (after("OOMKilled", 137), "scheduler-out-of-memory"),
        ({"phase": "Failed", "reason": "Evicted"}, "scheduler-took-away"),
    ],
)
def test_what_the_api_says_of_a_pod_is_the_cause(status: dict[str, Any], signature: str) -> None:
    """The list may lie in any folder; the labels say which rank is in which pod."""
    data = listed(pytorchjob(None, None, None, status)).decode()
    store = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
    log = f"{store}3/4 clients joined.\n"
    first = diagnosed_files({"job.log": log, "pods.json": data}).findings[0]

    assert (first.signature, first.culprit_ranks) == (signature, (3,))
    assert any("bert-worker-2" in one.quote for one in first.evidence)


@pytest.mark.parametrize(
    "data", ['{"kind": "PodList", "items": [', '{"kind": "Pod", "metadata": 7}']
)
def test_a_damaged_list_is_no_traceback(data: str) -> None:
    """It is a gap, or nothing."""
    assert diagnosed_files({"pods.json": data}).verdict == "inconclusive"


def test_what_kubectl_says_becomes_a_reason_and_a_remedy() -> None:
    """The rights, and the image without a shell, are what one meets first."""
    errors = 'pods "a" is forbidden: User "u" cannot create resource "pods/exec"'
    assert (
        "docs/kubernetes.md" in remote_host.ended("a", "kubernetes", 1, errors, alive=False).remedy
    )
    errors = 'exec: "sh": executable file not found in $PATH'
    assert "--k8s-debug" in remote_host.ended("a", "kubernetes", 126, errors, alive=False).remedy
    assert "--k8s-debug" in remote_host.no_python("a", "kubernetes").remedy


def test_names_with_digits_are_sorted_as_numbers() -> None:
    """Where no label numbers the pods."""
    pods = pods_in(listed([pod(f"w-{n}", {}) for n in (10, 9, 1)]))
    assert [one.name for one in in_order(pods)] == ["w-1", "w-9", "w-10"]

"""Pods as ``kubectl get pods -o json`` prints them: where each is, and how its containers are.

Fields: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/. The word for
a pod's state is that of the column STATUS (kubernetes, pkg/printers/internalversion, printPod).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from whyhang.analyzer import toml
from whyhang.analyzer.facts import NOBODY, Fact, Record, Scheduled
from whyhang.analyzer.reading import Document
from whyhang.collectors.files.naming import natural

MAX_BYTES = 64 << 20


class _Labels(Record):
    roles: tuple[str, ...]
    groups: tuple[str, ...]
    numbers: tuple[str, ...]
    leaders: frozenset[str]
    trainers: tuple[str, ...]
    beside: tuple[str, ...]
    jobs: dict[str, str]
    short: dict[str, str]


LABELS = toml.read(__package__, "pods.toml", _Labels)
_LISTS = (b'"PodList"', b'"List"', b'"Pod"')


class Pod(Record):
    """A pod as the API describes it, without its specification.

    ``state`` is kubectl's STATUS, ``why`` in words what it waits for or how it ended;
    ``runs``: something can be run in it. ``containers`` are the names of those that are
    no init containers, ``owner`` is the id of what made it.
    """

    name: str
    namespace: str
    state: str
    labels: Mapping[str, str]
    runs: bool = False
    node: str = ""
    why: str = ""
    containers: tuple[str, ...] = ()
    default_container: str = ""
    owner: str = ""

    @property
    def job(self) -> tuple[str, str]:
        """What the pod is a part of, as its labels or its owner say: a kind and a name."""
        for label, kind in LABELS.jobs.items():
            if name := self.labels.get(label):
                by = self.labels.get("training.kubeflow.org/operator-name", "")
                return ("MPIJob" if by.startswith("mpi") else kind), name
        return "", self.owner

    @property
    def place(self) -> tuple[int, int, int] | None:
        """Where it stands among the pods of its job: group, whether it leads, its number there.

        None where its labels do not number it, as with the workers of Ray.
        """
        role, group, index = (
            next((self.labels[key] for key in keys if key in self.labels), "")
            for keys in (LABELS.roles, LABELS.groups, LABELS.numbers)
        )
        leads = role.lower() in LABELS.leaders
        if not index.isdecimal() and not leads:
            return None
        numbers = [int(text) if text.isdecimal() else 0 for text in (group, index)]
        return numbers[0], 0 if leads else 1, numbers[1]

    @property
    def launches(self) -> bool:
        """Whether it starts the ranks and holds none."""
        return self.labels.get("training.kubeflow.org/job-role") == "launcher"


def in_order(pods: Iterable[Pod]) -> list[Pod]:
    """Sort the pods of a job as its operator numbers them; those without a number by name."""
    return sorted(pods, key=lambda pod: (pod.place is None, pod.place or (), natural(pod.name)))


def pods_in(data: bytes | str) -> list[Pod]:
    """Read a list of pods, or one. Raises ``ValueError`` if it is none."""
    whole = json.loads(data)
    is_list = str(_dict(whole).get("kind", "")).endswith("List")
    items = _dicts(whole, "items") if is_list else [_dict(whole)]
    pods = [item for item in items if item.get("kind", "Pod") == "Pod"]
    return [_pod(item) for item in pods if _dict(item, "metadata").get("name")]


def without_specifications(data: bytes) -> bytes:
    """Return the same list with what pods were told to run left out: it may hold secrets."""
    names = ("name", "namespace", "labels", "creationTimestamp", "deletionTimestamp")
    items = [
        {
            "kind": "Pod",
            "metadata": {n: each for n, each in _dict(item, "metadata").items() if n in names},
            "spec": {
                "nodeName": _dict(item, "spec").get("nodeName", ""),
                "containers": [{"name": name} for name in _containers(item)],
            },
            "status": item.get("status", {}),
        }
        for item in _dicts(json.loads(data), "items")
    ]
    return json.dumps({"kind": "PodList", "items": items}, indent=1).encode() + b"\n"


def _pod(item: Mapping[str, Any]) -> Pod:
    about = _dict(item, "metadata")
    annotations = _dict(about, "annotations")
    state, why = _state(item)
    states = _dicts(item, "status", "containerStatuses")
    return Pod(
        name=str(about["name"]),
        namespace=str(about.get("namespace", "")),
        state=state,
        runs=_dict(item, "status").get("phase") == "Running"
        and any("running" in _dict(one, "state") for one in states),
        node=str(_dict(item, "spec").get("nodeName") or ""),
        why=" ".join(why.split())[:400],
        containers=tuple(_containers(item)),
        default_container=str(annotations.get("kubectl.kubernetes.io/default-container", "")),
        owner=next((str(one.get("uid", "")) for one in _dicts(about, "ownerReferences")), ""),
        labels={str(key): str(value) for key, value in _dict(about, "labels").items()},
    )


def _containers(item: Mapping[str, Any]) -> list[str]:
    return [str(one.get("name")) for one in _dicts(item, "spec", "containers")]


def _state(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return kubectl's word for the state of a pod, and why it is in it."""
    status = _dict(item, "status")
    word = str(status.get("reason") or status.get("phase") or "Unknown")
    why = str(status.get("message") or "")
    for condition in _dicts(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            why = why or str(condition.get("message") or condition.get("reason") or "")
    if begun := _of_init(status):
        return begun[0], begun[1] or why
    running = False
    for one in reversed(_dicts(status, "containerStatuses")):
        waiting, ended = _dict(one, "state", "waiting"), _dict(one, "state", "terminated")
        before, runs = _dict(one, "lastState", "terminated"), "running" in _dict(one, "state")
        running = running or runs
        if waiting.get("reason"):
            word, why = str(waiting["reason"]), str(waiting.get("message") or why)
        elif ended:
            word, _ = _ending(ended)
        if before and not ended:
            how, number = _ending(before)
            times = _number(one.get("restartCount"))
            why = f"restarted {times} times, last after {how} (exit code {number})"
            word = how if runs and how == "OOMKilled" else word
    if word == "Completed" and running:
        word = "Running"
    if _dict(item, "metadata").get("deletionTimestamp"):
        word = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return word, why


def _of_init(status: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the state of a pod whose init containers have not come to their end."""
    before = _dicts(status, "initContainerStatuses")
    for number, one in enumerate(before):
        waiting, ended = _dict(one, "state", "waiting"), _dict(one, "state", "terminated")
        if (ended and _number(ended.get("exitCode")) == 0) or (
            one.get("started") and one.get("ready")
        ):
            continue
        if ended:
            return f"Init:{_ending(ended)[0]}", str(ended.get("message") or "")
        if waiting.get("reason") not in {None, "", "PodInitializing"}:
            return f"Init:{waiting['reason']}", str(waiting.get("message") or "")
        return f"Init:{number}/{len(before)}", ""
    return None


def _ending(ended: Mapping[str, Any]) -> tuple[str, str]:
    code = _number(ended.get("exitCode"))
    return str(ended.get("reason") or f"ExitCode:{code}"), str(code)


def _dict(value: Any, *path: str) -> Mapping[str, Any]:
    """Return what stands there, where it is a mapping, else an empty one."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _dicts(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the mappings in the list that stands there."""
    listed = _dict(value, *path[:-1]).get(path[-1])
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


class PodListReader:
    """Reads what ``kubectl get pods -o json`` prints."""

    name = "pods of Kubernetes"

    def sniff(self, document: Document) -> bool:
        """Return whether it begins like JSON and names pods."""
        head = document.head.lstrip()[:65536]
        return head.startswith(b"{") and b'"kind"' in head and any(kind in head for kind in _LISTS)

    def owns(self, document: Document) -> bool:
        """Return whether it is one: there is nothing in it for other readers."""
        return self.sniff(document) and b'"metadata"' in document.head

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield how each pod is."""
        data = document.content(MAX_BYTES)
        try:
            pods = pods_in(data)
        except (ValueError, RecursionError) as error:
            yield document.gap(
                f"it is damaged or cut off ({error})",
                what=f"{document.path}, a list of pods",
                cost="what Kubernetes says of the job's pods is not known",
                remedy="kubectl get pods -o json > pods.json",
            )
            return
        numbers: dict[str, int] = {}  # of the first lines on which names stand as fields
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            words = line.strip().rstrip(",").split('"')
            if len(words) == 5 and words[1] == "name":
                numbers.setdefault(words[3], number)
        indexes = _indexes(pods)
        for pod in pods:
            where = f" on {pod.node}" if pod.node else ""
            yield Scheduled(
                who=NOBODY,
                source=document.source(numbers.get(pod.name)),
                kind="pod",
                name=pod.name,
                state=pod.state,
                quote=f"{pod.name}: {pod.state}{where}" + (f", {pod.why}" if pod.why else ""),
                reason=pod.why,
                hosts=(pod.node,) if pod.node else (),
                index=indexes.get(pod.name),
            )


def _indexes(pods: Iterable[Pod]) -> dict[str, int]:
    """Give each pod that holds ranks its number in its job, as the operators do: from 0."""
    jobs: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        if pod.place is not None and not pod.launches:
            jobs.setdefault(pod.job, []).append(pod)
    return {pod.name: n for job in jobs.values() for n, pod in enumerate(in_order(job))}

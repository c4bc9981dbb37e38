"""Pods as ``kubectl get pods -o json`` prints them: where each is, and how its containers are.

Fields: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/. The word for
a pod's state is that of the column STATUS (kubernetes, pkg/printers/internalversion, printPod).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from whyhang.analyzer.facts import NOBODY, Fact, Record, Scheduled
from whyhang.analyzer.reading import Document
from whyhang.collectors import tables

MAX_BYTES = 64 << 20


class _Labels(Record):
    roles: tuple[str, ...]
    groups: tuple[str, ...]
    numbers: tuple[str, ...]
    leaders: frozenset[str]
    jobs: dict[str, str]
    short: dict[str, str]


LABELS = tables.read("cluster", "pods.toml", _Labels)
_LISTS = (b'"PodList"', b'"List"', b'"Pod"')


class Pod(Record):
    """A pod as the API describes it, without its specification.

    ``state`` is kubectl's STATUS, ``why`` in words what it waits for or how it ended, ``code`` the
    exit code; ``runs``: something can be run in it. ``containers`` are the names of those that are
    no init containers, ``owner`` is the id of what made it.
    """

    name: str
    namespace: str
    state: str
    labels: Mapping[str, str]
    runs: bool = False
    node: str = ""
    why: str = ""
    code: str = ""
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

    def key(pod: Pod) -> tuple[object, ...]:
        digits = [int(text) if text.isdecimal() else text for text in re.split(r"(\d+)", pod.name)]
        return (pod.place is None, pod.place or (), digits)

    return sorted(pods, key=key)


def pods_in(data: bytes | str) -> list[Pod]:
    """Read a list of pods, or one. Raises ``ValueError`` if it is none."""
    whole = _mapping(json.loads(data))
    items = _list(whole.get("items")) if str(whole.get("kind", "")).endswith("List") else [whole]
    described = [_mapping(item) for item in items if _mapping(item).get("kind", "Pod") == "Pod"]
    return [_pod(item) for item in described if _mapping(item.get("metadata")).get("name")]


def without_specifications(data: bytes) -> bytes:
    """Return the same list with what pods were told to run left out: it may hold secrets."""
    whole = _mapping(json.loads(data))
    kept = [_bare(_mapping(item)) for item in _list(whole.get("items"))]
    return json.dumps({"kind": "PodList", "items": kept}, indent=1).encode() + b"\n"


def _bare(item: Mapping[str, Any]) -> dict[str, Any]:
    about, spec = _mapping(item.get("metadata")), _mapping(item.get("spec"))
    names = ("name", "namespace", "labels", "creationTimestamp", "deletionTimestamp")
    containers = [{"name": _mapping(one).get("name")} for one in _list(spec.get("containers"))]
    return {
        "kind": "Pod",
        "metadata": {name: about[name] for name in names if name in about},
        "spec": {"nodeName": spec.get("nodeName", ""), "containers": containers},
        "status": item.get("status", {}),
    }


def _pod(item: Mapping[str, Any]) -> Pod:
    about, spec = _mapping(item.get("metadata")), _mapping(item.get("spec"))
    status = _mapping(item.get("status"))
    annotations = _mapping(about.get("annotations"))
    owners = [_mapping(one) for one in _list(about.get("ownerReferences"))]
    states = [_mapping(one) for one in _list(status.get("containerStatuses"))]
    state, why, code = _state(about, status, states)
    return Pod(
        name=str(about["name"]),
        namespace=str(about.get("namespace", "")),
        state=state,
        runs=status.get("phase") == "Running"
        and any("running" in _mapping(one.get("state")) for one in states),
        node=str(spec.get("nodeName") or ""),
        why=" ".join(why.split())[:400],
        code=code,
        containers=tuple(str(_mapping(one).get("name")) for one in _list(spec.get("containers"))),
        default_container=str(annotations.get("kubectl.kubernetes.io/default-container", "")),
        owner=str(owners[0].get("uid", "")) if owners else "",
        labels={str(key): str(value) for key, value in _mapping(about.get("labels")).items()},
    )


def _state(
    about: Mapping[str, Any], status: Mapping[str, Any], states: Iterable[Mapping[str, Any]]
) -> tuple[str, str, str]:
    """Return kubectl's word for the state of a pod, why it is in it, and an exit code."""
    word = str(status.get("reason") or status.get("phase") or "Unknown")
    why, code = str(status.get("message") or ""), ""
    for condition in map(_mapping, _list(status.get("conditions"))):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            why = why or str(condition.get("message") or condition.get("reason") or "")
    if begun := _of_init(status):
        return begun[0], begun[1] or why, ""
    running = False
    for one in reversed(list(states)):
        now, before = (
            _mapping(one.get("state")),
            _mapping(_mapping(one.get("lastState")).get("terminated")),
        )
        waiting, ended = _mapping(now.get("waiting")), _mapping(now.get("terminated"))
        running = running or "running" in now
        if waiting.get("reason"):
            word, why = str(waiting["reason"]), str(waiting.get("message") or why)
        elif ended:
            word, code = _ending(ended)
        if before and not ended:
            how, number = _ending(before)
            times = _number(one.get("restartCount"))
            why = f"restarted {times} times, last after {how} (exit code {number})"
            word = how if "running" in now and how == "OOMKilled" else word
    if word == "Completed" and running:
        word = "Running"
    if about.get("deletionTimestamp"):
        word = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return word, why, code


def _of_init(status: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the state of a pod whose init containers have not come to their end."""
    before = [_mapping(one) for one in _list(status.get("initContainerStatuses"))]
    for number, one in enumerate(before):
        now = _mapping(one.get("state"))
        waiting, ended = _mapping(now.get("waiting")), _mapping(now.get("terminated"))
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


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


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
        numbers = _lines_of_names(data, {pod.name for pod in pods})
        indexes = _indexes(pods)
        for pod in pods:
            yield Scheduled(
                who=NOBODY,
                source=document.source(numbers.get(pod.name)),
                kind="pod",
                name=pod.name,
                state=pod.state,
                quote=_quote(pod),
                reason=pod.why,
                code=pod.code,
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


def _quote(pod: Pod) -> str:
    where = f" on {pod.node}" if pod.node else ""
    return f"{pod.name}: {pod.state}{where}" + (f", {pod.why}" if pod.why else "")


def _lines_of_names(data: bytes, names: set[str]) -> dict[str, int]:
    """Return the first line on which each pod's name stands as a field."""
    lines: dict[str, int] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = line.strip().rstrip(",").split('"')
        if len(words) == 5 and words[1] == "name" and words[3] in names:
            lines.setdefault(words[3], number)
    return lines

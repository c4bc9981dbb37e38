"""The pods of a job in Kubernetes, as kubectl names them; ``kubectl exec`` reaches each of them.

``kubectl debug`` does where it is asked for, for images without Python and pods without the right
to ptrace: it adds an ephemeral container to the pod, which stays in its description, ended.
What the API says of the pods is evidence as well, and kept without their specifications, which may
hold secrets; ``collectors/cluster`` reads it.
"""

import re
from collections.abc import Sequence

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Gap, Record, counted
from whyhang.collectors.cluster.pod_list import (
    LABELS,
    Pod,
    in_order,
    pods_in,
    without_specifications,
)
from whyhang.collectors.hosts.reach import Reach, ReachedHost
from whyhang.collectors.live.programs import Outcome, run

LIMIT = 15.0
"""Seconds that the API server has to answer."""

PATIENCE = 15.0
"""Seconds for a pod's first sign of life: the API server asks the kubelet of its node."""

PATIENCE_DEBUG = 90.0
"""The same where the image of a debugging container may have to be pulled."""

_KLOG = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ ")
_SHORT = re.compile(r"(?P<kind>[a-z]+)/(?P<name>[a-z0-9][a-z0-9.-]*)")
MOST_NAMED = 8


class Pods(Record):
    """What was asked for: a label selector or KIND/NAME, a namespace, a container.

    ``debug_image``: reach the pods by an ephemeral container of this image.
    """

    selector: str
    namespace: str | None = None
    container: str | None = None
    debug_image: str | None = None


def reach(asked: Pods) -> Reach:
    """Ask the API for the pods. Raises ``TargetError`` where there are none, or no answer."""
    words = get_pods(asked)
    got = run(*words, limit=LIMIT + 5)
    if got.code != 0:
        raise _no_answer(asked, got)
    try:
        pods = pods_in(got.output)
    except ValueError as error:
        raise TargetError(
            f"what kubectl printed is no list of pods: {error}", f"Look at it: {' '.join(words)}"
        ) from error
    return plan(asked, pods, without_specifications(got.output))


def get_pods(asked: Pods) -> tuple[str, ...]:
    """Return the command that lists the pods. Raises ``TargetError`` for a kind not known."""
    selector = asked.selector
    if short := _SHORT.fullmatch(selector):
        if short["kind"] not in LABELS.short:
            raise TargetError(
                f"{short['kind']} is no kind of job whose labels are known here",
                f"Known are {', '.join(LABELS.short)}; else give a label selector: --k8s app=bert.",
            )
        selector = f"{LABELS.short[short['kind']]}={short['name']}"
    how = (f"--selector={selector}", "--output=json", f"--request-timeout={LIMIT:g}s")
    return ("kubectl", "get", "pods", *_in(asked.namespace), *how)


def plan(asked: Pods, pods: Sequence[Pod], listed: bytes = b"") -> Reach:
    """Return the way into each pod that runs; the others are gaps. Raises ``TargetError``."""
    if not pods:
        where = f"in namespace {asked.namespace}" if asked.namespace else "in this namespace"
        raise TargetError(
            f"no pod matches {asked.selector} {where}",
            "Look: kubectl get pods --show-labels --all-namespaces; give the namespace with -n.",
        )
    jobs = dict.fromkeys(pod.job for pod in pods)
    if len(jobs) > 1:
        names = ", ".join(_name_of(job, pods) for job in [*jobs][:MOST_NAMED])
        raise TargetError(
            f"{asked.selector} matches pods of {len(jobs)} jobs: {names}",
            "Give the label of one of them: kubectl get pods --show-labels.",
        )
    ordered = in_order(pods)
    hosts = tuple(_host(asked, pod) for pod in ordered if pod.runs)
    away = [pod for pod in ordered if not pod.runs]
    by = "kubectl debug" if asked.debug_image else "kubectl exec"
    count = counted(len(pods), "pod")
    count = f"{len(hosts)} of {count}" if away else count
    return Reach(
        kind="kubernetes",
        sentence=f"{count} of {_name_of(next(iter(jobs)), pods)} by {by}",
        hosts=hosts,
        gaps=tuple(
            Gap(
                what=f"pod {pod.name}",
                why=f"it is {pod.state}" + (f": {pod.why}" if pod.why else ""),
                cost="nothing can be run in it, and its ranks are not seen",
                remedy=f"kubectl describe pod {pod.name} --namespace {pod.namespace}; "
                f"kubectl logs {pod.name} --namespace {pod.namespace} --previous",
            )
            for pod in away
            if pod.state not in {"Completed", "Succeeded"}
        ),
        patience=PATIENCE_DEBUG if asked.debug_image else PATIENCE,
        printed=(("pods.json", listed),) if listed else (),
    )


def container_of(asked: Pods, pod: Pod) -> str:
    """Return the container in which the ranks of a pod run. Raises ``TargetError``.

    The one asked for, else the pod's default, else one whose name is that of a trainer, else the
    first that is not known to stand beside.
    """
    if asked.container is not None:
        if asked.container not in pod.containers:
            raise TargetError(
                f"pod {pod.name} has no container {asked.container}",
                f"It has {', '.join(pod.containers)}.",
            )
        return asked.container
    if pod.default_container in pod.containers:
        return pod.default_container
    named = [one for name in LABELS.trainers for one in pod.containers if one == name]
    others = [one for one in pod.containers if not any(word in one for word in LABELS.beside)]
    return [*named, *others, *pod.containers, ""][0]


def _host(asked: Pods, pod: Pod) -> ReachedHost:
    container = container_of(asked, pod)
    place = (*_in(pod.namespace or asked.namespace), pod.name)
    words = ("exec", "--stdin", *place, f"--container={container}", "--")
    if asked.debug_image is not None:
        words = ("debug", "--stdin", "--quiet", *place, f"--target={container}")
        words += (f"--image={asked.debug_image}", "--profile=general", "--")
    return ReachedHost(name=pod.name, argv=("kubectl", *words))


def _in(namespace: str | None) -> tuple[str, ...]:
    return (f"--namespace={namespace}",) if namespace else ()


def _name_of(job: tuple[str, str], pods: Sequence[Pod]) -> str:
    kind, name = job
    first = next(pod for pod in pods if pod.job == job)
    return f"{kind} {name}" if kind else f"what {first.name} is part of"


def _no_answer(asked: Pods, got: Outcome) -> TargetError:
    # What the library below kubectl logs about each try says less than its last line.
    lines = got.errors.strip().splitlines()
    errors = "\n".join([line for line in lines if not _KLOG.match(line)] or lines[-1:])
    if got.code is None and not got.timed_out:
        return TargetError(
            f"kubectl cannot be started: {errors}",
            "Install it (https://kubernetes.io/docs/tasks/tools/), or run whyhang in a pod.",
        )
    if got.timed_out or "i/o timeout" in errors or "refused" in errors:
        return TargetError(
            f"the API server of Kubernetes does not answer: {errors or f'within {LIMIT:g} s'}",
            "Try kubectl cluster-info: is this the right context (kubectl config get-contexts)?",
        )
    if "forbidden" in errors.lower():
        return TargetError(
            f"Kubernetes does not let you list the pods: {errors}",
            "The rights that are needed (pods: get, list; pods/exec: create) stand in "
            "docs/kubernetes.md.",
        )
    return TargetError(
        f"kubectl cannot list the pods of {asked.selector}: {errors}",
        f"Try it: {' '.join(got.command.arguments)}",
    )

"""What the scheduler says of a job's nodes and pods: lost, or not begun."""

import shlex
from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Scheduled, replace, same_host
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.machines.cluster import (
    hosts_of_job,
    own_jobs,
    own_pods,
    ranks_of_pods,
    ranks_on,
    scheduled_hit,
)
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.queries.waits.lagging import lagging

LOST = ("DOWN", "FAIL", "NOT_RESPONDING", "NOTREADY", "POWERED_DOWN", "*")
"""In the state of a node that has gone; one that drains goes on with what it runs."""

NOT_BEGUN = {"Pending", "ContainerCreating", "PodInitializing", "ImagePullBackOff", "ErrImagePull"}
NOT_BEGUN |= {"CreateContainerConfigError", "CreateContainerError", "InvalidImageName"}
NOT_BEGUN |= {"PENDING", "CONFIGURING", "REQUEUED"}


@side("scheduler_shows", what="node-lost")
def _node_lost(case: Case) -> Iterator[Hit]:
    """Yield one hit for the nodes of the job that have gone."""
    ours = hosts_of_job(case)
    rows = [
        row
        for row in case.job.of(Scheduled)
        if row.kind == "node" and any(word in row.state.upper() for word in LOST)
    ]
    lost = {host: row for row in rows for host in row.hosts if not ours or _among(host, ours)}
    if not lost or (not ours and len(lost) > 1):  # of a whole cluster some node always is down
        return
    if lagging(case):
        return  # its daemon does not answer, but what runs there goes on, and who lags is seen
    row = next(iter(lost.values()))
    pods = [pod for pod in own_pods(case) if any(_among(h, set(lost)) for h in pod.hosts)]
    ranks = {*ranks_on(case, lost), *ranks_of_pods(case, pods)}
    yield scheduled_hit(
        case, list(lost.values()), tuple(sorted(ranks)), node=", ".join(lost), row=row
    )


def _among(host: str, ours: set[str]) -> bool:
    return any(same_host(host, own) for own in ours)


@side("scheduler_shows", what="not-started")
def _not_begun(case: Case) -> Iterator[Hit]:
    """Yield one hit for pods that wait to be started while others run, or a job that waits."""
    pods = own_pods(case)
    waiting = [row for row in pods if row.state in NOT_BEGUN or row.state.startswith("Init:")]
    if not waiting:
        jobs = own_jobs(case)
        waiting = [row for row in jobs if row.state in NOT_BEGUN] if not case.job.members else []
    if waiting and not _enough(case, {pod.name for pod in pods if pod not in waiting}):
        hit = scheduled_hit(case, waiting, ranks_of_pods(case, waiting), row=waiting[0])
        yield replace(hit, fields={**hit.fields, "name": shlex.quote(waiting[0].name)})


def _enough(case: Case, running: set[str]) -> bool:
    """Return whether the pods that run hold all ranks: one more that waits holds nobody up."""
    seen = [m.host for m in case.job.members if m.rank is not None and m.host in running]
    each = max(map(seen.count, set(seen)), default=0)
    return 0 < (case.job.world_size or 0) <= len(running) * each

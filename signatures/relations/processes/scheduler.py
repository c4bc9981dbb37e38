"""What the scheduler says of a job's nodes and pods: lost, or not begun."""

import shlex
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Scheduled, replace
from whyhang.analyzer.queries import Case, Hit, Signature

LOST = ("DOWN", "FAIL", "NOT_RESPONDING", "NOTREADY", "POWERED_DOWN", "*")
"""In the state of a node that has gone; one that drains goes on with what it runs."""

NOT_BEGUN = {"Pending", "ContainerCreating", "PodInitializing", "ImagePullBackOff", "ErrImagePull"}
NOT_BEGUN |= {"CreateContainerConfigError", "CreateContainerError", "InvalidImageName"}
NOT_BEGUN |= {"PENDING", "CONFIGURING", "REQUEUED"}


def node_lost(case: Case) -> Iterator[Hit]:
    """Yield one hit for the nodes of the job that have gone."""
    ours = queries.hosts_of_job(case)
    rows = [
        row
        for row in case.job.of(Scheduled)
        if row.kind == "node" and any(word in row.state.upper() for word in LOST)
    ]
    lost = {host: row for row in rows for host in row.hosts if not ours or _among(host, ours)}
    if not lost or (not ours and len(lost) > 1):  # of a whole cluster some node always is down
        return
    if queries.lagging(case) and not any(_is_down(row.state) for row in lost.values()):
        return  # its daemon does not answer, but what runs there goes on, and who lags is seen
    row = next(iter(lost.values()))
    pods = [pod for pod in queries.own_pods(case) if any(_among(h, set(lost)) for h in pod.hosts)]
    ranks = {*queries.ranks_on(case, lost), *queries.ranks_of_pods(case, pods)}
    yield queries.scheduled_hit(
        case, list(lost.values()), tuple(sorted(ranks)), node=", ".join(lost), row=row
    )


def _among(host: str, ours: set[str]) -> bool:
    return any(queries.same_host(host, own) for own in ours)


def _is_down(state: str) -> bool:
    return any(word in state.upper() for word in LOST[:-1] if word != "NOT_RESPONDING")


def not_begun(case: Case) -> Iterator[Hit]:
    """Yield one hit for pods that wait to be started while others run, or a job that waits."""
    pods = queries.own_pods(case)
    waiting = [row for row in pods if row.state in NOT_BEGUN or row.state.startswith("Init:")]
    if not waiting:
        jobs = queries.own_jobs(case)
        waiting = [row for row in jobs if row.state in NOT_BEGUN] if not case.job.members else []
    if waiting and not _enough(case, {pod.name for pod in pods if pod not in waiting}):
        hit = queries.scheduled_hit(
            case, waiting, queries.ranks_of_pods(case, waiting), row=waiting[0]
        )
        yield replace(
            hit,
            fields={**hit.fields, "name": shlex.quote(waiting[0].name)},
        )


def _enough(case: Case, running: set[str]) -> bool:
    """Return whether the pods that run hold all ranks: one more that waits holds nobody up."""
    seen = [m.host for m in case.job.members if m.rank is not None and m.host in running]
    each = max(map(seen.count, set(seen)), default=0)
    return 0 < (case.job.world_size or 0) <= len(running) * each


NODE_LOST = Signature(
    id="scheduler-node-lost",
    story="""\
The scheduler shows a node of the job as down, or as one that does not answer.

scontrol show node says DOWN, FAIL or a star behind the state, kubectl get nodes says NotReady. All
ranks of that node are gone or cut off, and the others wait for them or lose their connections.
A node that merely drains goes on with what it runs.
""",
    category="rank-died",
    level="machine",
    title="Node {node} of the job is {state}, says the scheduler{reason}",
    when=node_lost,
    means="Whatever ran on {node} is gone or cut off; the other ranks can only wait for it.",
    confidence="strong",
    remedies=(
        "Exclude {node} and resume from the last checkpoint; report it.",
        "Look for what took it down: its kernel log, its BMC, power and network.",
    ),
    next_steps=("dmesg -T; ipmitool sel list  # on {node}, if it can be reached",),
)

NOT_STARTED = Signature(
    id="scheduler-not-started",
    story="""\
A part of the job was never started: the scheduler still holds it.

Pods that are Pending (no node has what they ask for, a volume cannot be mounted, an image cannot be
pulled), or a job in the queue. The ranks that run wait in init_process_group for those that do not.
""",
    category="init-missing-rank",
    level="setup",
    title="The scheduler has not started {names}: {state}{reason}",
    when=not_begun,
    means="What should run in {names} does not run yet; the ranks that do wait for it.",
    confidence="strong",
    remedies=(
        "Give it what it waits for (nodes, GPUs, a volume, an image), or ask for less.",
        "Start all ranks or none: a gang scheduler (Volcano, Kueue), one Slurm job.",
    ),
    next_steps=("kubectl describe pod {name}  # its events; of Slurm: scontrol show job {name}",),
)

SIGNATURES = (NODE_LOST, NOT_STARTED)

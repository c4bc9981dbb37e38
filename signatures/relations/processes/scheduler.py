"""What the scheduler says of a job's nodes, steps and pods: lost, killed, suspended, not begun."""

from collections.abc import Callable, Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Scheduled
from whyhang.analyzer.queries import Case, Hit, Kind, Signature, cite

LOST = ("DOWN", "FAIL", "NOT_RESPONDING", "NOTREADY", "POWERED_DOWN", "*")
"""In the state of a node that has gone; one that drains goes on with what it runs."""

KILLED = {"OUT_OF_MEMORY", "OOMKilled"}
TAKEN = {"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED", "Evicted", "Preempted", "NodeLost"}
TAKEN |= {"Shutdown", "UnexpectedAdmissionError"}
ENDED = {"CANCELLED", "TIMEOUT", "DEADLINE", "FAILED"}
HELD = {"SUSPENDED", "STOPPED"}
NOT_BEGUN = {"Pending", "ContainerCreating", "PodInitializing", "ImagePullBackOff", "ErrImagePull"}
NOT_BEGUN |= {"CreateContainerConfigError", "CreateContainerError", "InvalidImageName"}
NOT_BEGUN |= {"PENDING", "CONFIGURING", "REQUEUED"}
MAX_QUOTES = 4


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
    row = next(iter(lost.values()))
    yield _hit(
        case, list(lost.values()), queries.ranks_on(case, lost), node=", ".join(lost), row=row
    )


def _among(host: str, ours: set[str]) -> bool:
    return any(queries.same_host(host, own) for own in ours)


def _rows_in(states: set[str]) -> Callable[[Case], Iterable[Hit]]:
    """Return a query for one hit over the jobs, steps and pods of this job in such a state."""

    def when(case: Case) -> Iterator[Hit]:
        rows = [row for row in queries.own_jobs(case) if row.state in states]
        pods = [row for row in queries.own_pods(case) if row.state in states]
        if rows or pods:
            yield _hit(case, [*pods, *rows], _ranks(case, pods), row=(pods or rows)[0])

    return when


def not_begun(case: Case) -> Iterator[Hit]:
    """Yield one hit for pods that wait to be started while others run, or a job that waits."""
    pods = queries.own_pods(case)
    waiting = [row for row in pods if row.state in NOT_BEGUN or row.state.startswith("Init:")]
    if not waiting:
        jobs = queries.own_jobs(case)
        waiting = [row for row in jobs if row.state in NOT_BEGUN] if not case.job.members else []
    if waiting:
        yield _hit(case, waiting, _ranks(case, waiting), row=waiting[0])


def _ranks(case: Case, pods: Iterable[Scheduled]) -> tuple[int, ...]:
    ranks = (queries.rank_of_pod(case, row.name) for row in pods)
    return tuple(sorted({rank for rank in ranks if rank is not None}))


def _hit(
    case: Case, rows: list[Scheduled], ranks: tuple[int, ...], *, row: Scheduled, node: str = ""
) -> Hit:
    members, unseen = queries.members_of(case, ranks)
    names = ", ".join(dict.fromkeys(f"{one.kind} {one.name}" for one in rows[:MAX_QUOTES]))
    reason = next((one.reason for one in rows if one.reason), "")
    return Hit(
        members=members,
        ranks=unseen,
        affected=tuple(m.id for m in case.job.members if m.id not in members and ranks),
        names_culprit=bool(ranks) and len(ranks) < (case.job.world_size or len(ranks) + 1),
        evidence=tuple(cite(one.source, one.quote) for one in rows[:MAX_QUOTES]),
        fields={
            "node": node,
            "names": names,
            "state": row.state,
            "reason": f" ({reason})" if reason else "",
        },
    )


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

OUT_OF_MEMORY = Signature(
    id="scheduler-out-of-memory",
    story="""\
The scheduler's records show a step or pod of the job that was killed for its memory.

sacct says OUT_OF_MEMORY, kubectl OOMKilled. The limit counts all processes of the step or the
container on a node, DataLoader workers and page cache among them.
""",
    category="rank-oom-killed",
    level="kill",
    title="The scheduler shows {names} as {state}",
    when=_rows_in(KILLED),
    means="A process of {names} was killed for using too much memory; the others wait for it.",
    confidence="strong",
    remedies=("Ask for more memory, or load less at once and use fewer DataLoader workers.",),
    next_steps=("sacct -j JOB -o JobID,MaxRSS,MaxRSSNode,MaxRSSTask,ReqMem  # which task?",),
)

TAKEN_AWAY = Signature(
    id="scheduler-took-away",
    story="""\
A step or pod of the job was taken away: preempted, evicted, lost with its node.

sacct says PREEMPTED or NODE_FAIL, kubectl Evicted. The ranks in it are gone for reasons outside of
the program, and the others wait for them.
""",
    category="rank-died",
    level="kill",
    title="The scheduler shows {names} as {state}{reason}",
    when=_rows_in(TAKEN),
    means="What ran in {names} was ended from outside; the others wait for it.",
    confidence="strong",
    remedies=("Resume from the last checkpoint; ask for a priority or nodes that are not taken.",),
    next_steps=("sacct -j JOB -o JobID,State,Reason,NodeList,End",),
)

ENDED_ROWS = Signature(
    id="scheduler-ended",
    story="""\
The scheduler's records show how the job ended: cancelled, out of time, failed.

A job that hung ends like this as well: somebody cancelled it, or its time was up. What its logs
did before is what counts.
""",
    category="slow-not-hung",
    kind=Kind.CONSEQUENCE,
    level="summary",
    title="The scheduler shows {names} as {state}{reason}",
    when=_rows_in(ENDED),
    means="That is how the job ended. Why it came to that stands in its logs.",
    confidence="possible",
    next_steps=("sacct -j JOB -o JobID,State,ExitCode,Start,End,NodeList",),
)

SUSPENDED = Signature(
    id="scheduler-suspended",
    story="""\
The scheduler has suspended the job, or a part of it.

Slurm stops all processes of a suspended job (by an administrator, or for one of higher priority
in a partition that shares its nodes). They do nothing until it is resumed, which looks like a hang.
""",
    category="rank-stopped",
    level="kill",
    title="The scheduler shows {names} as {state}{reason}",
    when=_rows_in(HELD),
    means="The processes of {names} are stopped and do nothing until the scheduler resumes them.",
    confidence="certain",
    remedies=("scontrol resume JOB, or ask who suspended it and why.",),
    next_steps=("scontrol show job JOB  # JobState, Reason, SuspendTime",),
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
    next_steps=("kubectl describe pod POD  # its events",),
)

SIGNATURES = (NODE_LOST, OUT_OF_MEMORY, TAKEN_AWAY, ENDED_ROWS, SUSPENDED, NOT_STARTED)

"""Hosts, jobs and pods as a scheduler shows them, which ranks are theirs; lost, or not begun."""

import posixpath
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    LastLine,
    LogTail,
    ProcessRank,
    Scheduled,
    replace,
    same_host,
)
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job import slurm_hosts
from whyhang.analyzer.job.slurm_numbers import name_of_job, number_told, own_slurm_rows, sole
from whyhang.analyzer.queries.hits import others_than
from whyhang.analyzer.queries.registry import query, side
from whyhang.analyzer.queries.waits.lagging import lagging
from whyhang.analyzer.report import cite

MAX_QUOTES = 4


_STEM = re.compile(r"(?:-(?:master|launcher|worker|ps|head|node))?(?:-\d+)?(?:-[a-z0-9]{5})?$")
_ROLE = re.compile(r"-(?P<role>master|launcher|worker|ps|head)(?:-\d+)?(?:-[a-z0-9]{5})?$")
_INDEX = re.compile(r"-(?P<role>master|worker)?-?(?P<index>\d+)(?:-[a-z0-9]{5})?$")


def ranks_on(case: Case, names: Iterable[str | None]) -> tuple[int, ...]:
    """Return the ranks of which something says that they ran on one of these hosts."""
    named = [host for host in names if host]
    facts = [(fact.rank, fact.who.host) for fact in case.job.of(ProcessRank)]
    facts += [(m.rank, m.host) for m in case.job.members if m.rank is not None]
    if case.job.absent:
        placed = hosts_of_ranks(case)
        facts += [(rank, placed.get(rank)) for rank in case.job.absent]
    return tuple(
        sorted({rank for rank, host in facts if host and any(same_host(host, n) for n in named)})
    )


def hosts_of_job(case: Case) -> set[str]:
    """Return the hosts that ranks, or the job's own rows and pods, are known to be on."""
    known = {member.host for member in case.job.members if member.host}
    for row in (*own_jobs(case), *own_pods(case)):
        known |= set(row.hosts)
    return known


def own_jobs(case: Case) -> tuple[Scheduled, ...]:
    """Return the last row of each job and step of Slurm that is this job's."""
    return own_slurm_rows(case.job)


def slurm_job(case: Case) -> str | None:
    """Return the number of this job in Slurm, if all that tells one tells the same.

    Rows of its tools go first, before what ``number_told`` goes by.
    """
    if rows := {name_of_job(row) for row in own_jobs(case)}:
        return sole(rows)
    return number_told(
        (process.environ for member in case.job.members for process in member.processes),
        (line.text for line in case.job.lines),
        (end.source.file for end in case.job.of(LastLine)),
    )


def own_pods(case: Case) -> tuple[Scheduled, ...]:
    """Return the last row of each pod of this job: those alike in name, if but one job has any.

    Of several jobs, none of them known to be this one, it is all if they fare alike.
    """
    rows = {row.name: row for row in case.job.of(Scheduled) if row.kind == "pod"}
    members = {name for m in case.job.members for name in (m.host, m.label) if name}
    stems = {_STEM.sub("", name) for name in rows}
    if len(stems) > 1:
        stems = {_STEM.sub("", name) for name in rows.keys() & members} or _faring_alike(rows)
    return tuple(row for name, row in rows.items() if _STEM.sub("", name) in stems)


def _faring_alike(rows: Mapping[str, Scheduled]) -> set[str]:
    """Return the jobs with pods of several roles, if their pods are in the same states."""
    states: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for name, row in rows.items():
        if (match := _ROLE.search(name)) is not None:
            states[_STEM.sub("", name)].add((match["role"], row.state))
    several = {stem: seen for stem, seen in states.items() if len({role for role, _ in seen}) > 1}
    return set(several) if len(set(map(frozenset, several.values()))) == 1 else set()


def ranks_of_pod(case: Case, name: str) -> tuple[int, ...]:
    """Return the ranks that run in a pod: those that are seen there, or speak in its log.

    Else by its number, as operators count (the master is first, and the workers follow), where all
    pods hold the same number of ranks: one, where nothing tells how many the job has. Not where the
    logs of other pods are those of these ranks.
    """
    seen = [m.rank for m in case.job.members if m.rank is not None and name in {m.host, m.label}]
    seen += [fact.rank for fact in case.job.of(ProcessRank) if fact.who.host == name]
    if seen:
        return tuple(sorted(set(seen)))
    numbers = _numbers_of_pods(own_pods(case))
    each, rest = divmod(case.job.world_size or len(numbers), len(numbers) or 1)
    first = numbers.get(name, 0) * each
    counted = range(first, first + each) if name in numbers and not rest else range(0)
    spoken = _ranks_in_logs(case)
    own = spoken.pop(name, set())
    if not own.issubset(counted):
        return tuple(sorted(own))
    return tuple(counted) if all(map({*counted}.isdisjoint, spoken.values())) else ()


def _ranks_in_logs(case: Case) -> dict[str, set[int]]:
    """Return by the name of a pod the ranks whose lines are in the log that is called after it."""
    pods = {row.name for row in case.job.of(Scheduled) if row.kind == "pod"}
    spoken: dict[str, set[int]] = defaultdict(set)
    for tail in case.job.of(LogTail):
        name = posixpath.basename(tail.source.file).partition(".")[0]
        if tail.who.rank is not None and name in pods:
            spoken[name].add(tail.who.rank)
    return dict(spoken)


def _numbers_of_pods(pods: Iterable[Scheduled]) -> dict[str, int]:
    """Return the number of each pod, by its labels; where these were not printed, by its name."""
    rows = list(pods)
    labelled = {row.name: row.index for row in rows if row.index is not None}
    if labelled:
        return labelled
    named = {row.name: match for row in rows if (match := _INDEX.search(row.name))}
    has_master = any(match["role"] == "master" for match in named.values())
    return {
        name: int(match["index"]) + (has_master and match["role"] != "master")
        for name, match in named.items()
    }


def hosts_of_ranks(case: Case) -> dict[int, str]:
    """Name the host or pod of ranks, those too that nothing was seen of, by the scheduler."""
    for member in case.job.members:
        task = member.environ.get("SLURM_PROCID", "")
        if task.isdecimal() and int(task) == member.rank:
            return dict(enumerate(slurm_hosts.hosts_of_ranks(member.environ)))
    return {rank: pod.name for pod in own_pods(case) for rank in ranks_of_pod(case, pod.name)}


@query
def scheduled(case: Case, *states: str) -> Iterator[Hit]:
    """Yield one hit for what the scheduler shows of this job in one of these states: jobs, pods."""
    rows = [row for row in own_jobs(case) if row.state in states]
    pods = [row for row in own_pods(case) if row.state in states]
    if rows or pods:
        yield scheduled_hit(case, [*pods, *rows], ranks_of_pods(case, pods), row=(pods or rows)[0])


def ranks_of_pods(case: Case, pods: Iterable[Scheduled]) -> tuple[int, ...]:
    """Return the ranks that run in these pods, as far as is known."""
    return tuple(sorted({rank for row in pods for rank in ranks_of_pod(case, row.name)}))


def scheduled_hit(
    case: Case, rows: list[Scheduled], ranks: tuple[int, ...], *, row: Scheduled, node: str = ""
) -> Hit:
    """Return a hit about rows of the scheduler; ``row`` is the one whose state is named."""
    names = ", ".join(dict.fromkeys(f"{one.kind} {one.name}" for one in rows[:MAX_QUOTES]))
    reason = next((one.reason for one in rows if one.reason), "")
    return Hit(
        ranks=ranks,
        affected=others_than(case, ranks) if ranks else (),
        names_culprit=bool(ranks) and len(ranks) < (case.job.world_size or len(ranks) + 1),
        evidence=tuple(cite(one.source, one.quote) for one in rows[:MAX_QUOTES]),
        fields={
            "node": node,
            "names": names,
            "state": row.state,
            "reason": f" ({reason})" if reason else "",
        },
    )


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

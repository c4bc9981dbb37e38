"""Hosts, jobs and pods as the tools of a cluster show them, and which ranks are theirs."""

import contextlib
import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    LastLine,
    NcclSetup,
    NetworkPort,
    ProcessRank,
    Scheduled,
    Variable,
    ranks_in_words,
    same_host,
)
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.job import slurm_hosts
from whyhang.analyzer.job.sockets import tcp_sockets
from whyhang.analyzer.queries.hits import others_than
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.report import cite

MAX_QUOTES = 4

VIRTUAL = ("docker", "veth", "virbr", "cni", "br-", "flannel", "cali", "lxc", "podman")
"""How the names of interfaces begin that other hosts cannot reach."""

_SLURM_JOB = re.compile(
    r"(?:slurmstepd: error: \*\*\* (?:JOB|STEP) |StepId=|JobId=|srun: job |batch job )(\d{1,10})\b"
)
_SLURM_FILE = re.compile(r"(?:^|/)slurm[-_](\d{2,10})(?:[-_.]|$)")
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


def networks_of(port: NetworkPort) -> tuple[str, ...]:
    """Return the networks that a port is in, of addresses that are printed with their prefix."""
    networks: list[str] = []
    for address in port.addresses:
        with contextlib.suppress(ValueError):  # digits that are no address
            network = ipaddress.ip_interface(address).network
            networks += [str(network)] if network.num_addresses > 1 else []
    return tuple(networks)


def own_jobs(case: Case) -> tuple[Scheduled, ...]:
    """Return the last row of each job and step of Slurm that is this job's.

    That is the only job shown, or the one whose number the logs or their names hold.
    """
    jobs = (row for row in case.job.of(Scheduled) if row.kind == "job")
    rows = {row.name: row for row in jobs if row.name[:1].isdigit()}
    numbers = {re.split(r"\D", name, maxsplit=1)[0] for name in rows}
    if len(numbers) > 1:
        files = {end.source.file for end in case.job.of(LastLine)}
        words = " ".join((*files, *(line.text for line in case.job.lines)))
        numbers = {n for n in numbers if re.search(rf"(?<!\d){n}(?!\d)", words)}
    return tuple(row for row in rows.values() if name_of_job(row) in numbers and len(numbers) == 1)


def name_of_job(row: Scheduled) -> str:
    """Return the number of a row's job, without that of its step."""
    return re.split(r"\D", row.name, maxsplit=1)[0]


def slurm_job(case: Case) -> str | None:
    """Return the number of this job in Slurm, if all that tells one tells the same.

    Rows of its tools go first, then what the processes' environment says, Slurm's own lines in the
    logs, and the names that sbatch gives to files.
    """
    rows = {name_of_job(row) for row in own_jobs(case)}
    variables = {
        process.environ.get("SLURM_JOB_ID") or process.environ.get("SLURM_JOBID") or ""
        for member in case.job.members
        for process in member.processes
    }
    lines = {number for line in case.job.lines for number in _SLURM_JOB.findall(line.text)}
    files = {
        number for end in case.job.of(LastLine) for number in _SLURM_FILE.findall(end.source.file)
    }
    for numbers in (rows, variables - {""}, lines, files):
        if numbers:
            return next(iter(numbers)) if len(numbers) == 1 else None
    return None


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
    """Return the ranks that run in a pod: those that are seen there.

    Else by its number, as operators count (the master is first, and the workers follow), where all
    pods hold the same number of ranks: one, where nothing tells how many the job has.
    """
    seen = [m.rank for m in case.job.members if m.rank is not None and name in {m.host, m.label}]
    seen += [fact.rank for fact in case.job.of(ProcessRank) if fact.who.host == name]
    if seen:
        return tuple(sorted(set(seen)))
    numbers = _numbers_of_pods(own_pods(case))
    each, rest = divmod(case.job.world_size or len(numbers), len(numbers) or 1)
    if name not in numbers or rest or not each:
        return ()
    return tuple(range(numbers[name] * each, (numbers[name] + 1) * each))


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


CHOOSING = {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"}
UNUSED = (*VIRTUAL, "lo", "tun", "dummy", "wl")
"""How the names of interfaces begin that no job is meant to use."""

MAX_PORTS = 6


@query
def ports_down(case: Case, *, rdma: bool) -> Iterator[Hit]:
    """Yield one hit for ports that are down where others alike are up, or that the job uses.

    So are those that are up in one print and down in another.

    ``rdma``: ports of InfiniBand and RoCE cards, or else network interfaces.
    """
    prints = _prints(case, rdma=rdma)
    now = {key: ports[-1] for key, ports in prints.items()}
    down = {key: port for key, port in now.items() if port.up is False}
    odd = {key: port for key, port in down.items() if _is_odd(key, now)}
    fell = {
        key: next(port for port in ports if port.up is False)
        for key, ports in prints.items()
        if {True, False} <= {port.up for port in ports}
    }
    used = {key: port for key, port in down.items() if _is_used(case, port)}
    bad = used | odd | fell
    if not bad:
        return
    hosts = sorted({host for host, _ in bad if host})
    ranks = ranks_on(case, hosts)
    everyone = {member.rank for member in case.job.members if member.rank is not None}
    first = next(iter(bad.values()))
    up = [port for (_, name), port in now.items() if name == first.name and port.up]
    yield Hit(
        ranks=ranks,
        affected=others_than(case, ranks),
        names_culprit=bool(ranks) and not everyone <= set(ranks),
        strength=CLEAR if used or fell else INCOMPLETE if ranks else GUESSED,
        evidence=tuple(
            cite(port.source, (f"{port.who.host}: " if port.who.host else "") + port.quote)
            for port in (*bad.values(), *up)[:MAX_PORTS]
        ),
        fields={
            "ports": ", ".join(dict.fromkeys(port.name for port in bad.values())),
            "where": f" on {', '.join(hosts)}" if hosts else "",
            "state": first.state,
            "who": ranks_in_words(ranks) if ranks else "whoever uses it",
            "others": ", and up on other hosts" if odd and up else "",
        },
    )


def _prints(case: Case, *, rdma: bool) -> dict[tuple[str | None, str], list[NetworkPort]]:
    """Return what was printed of each port, in order, by host and name."""
    prints: dict[tuple[str | None, str], list[NetworkPort]] = defaultdict(list)
    for port in case.job.of(NetworkPort):
        if port.up is not None and ("/" in port.name) is rdma and not port.name.startswith(UNUSED):
            prints[port.who.host, port.name].append(port)
    return prints


def _is_odd(key: tuple[str | None, str], now: dict[tuple[str | None, str], NetworkPort]) -> bool:
    """Return whether most other hosts have the port of this name up."""
    others = [port.up for (host, name), port in now.items() if name == key[1] and host != key[0]]
    return bool(others) and sum(map(bool, others)) * 2 > len(others)


def _is_used(case: Case, port: NetworkPort) -> bool:
    """Return whether the job is told to use the port, or has connections at its address."""
    if port.addresses and any(
        (port.who.host is None or same_host(member.host, port.who.host))
        and socket.peer is not None
        and socket.own.host == address.partition("/")[0]
        for member in case.job.members
        for process in member.processes[-1:]
        for socket in tcp_sockets(process)
        for address in port.addresses
    ):
        return True
    names = {port.name.partition("/")[0], port.netdev or port.name}
    chosen = [fact.value for fact in case.job.of(Variable) if fact.name in CHOOSING]
    chosen += [setup.interface for setup in case.job.of(NcclSetup)]
    words = {word for value in chosen if value[:1] != "^" for word in re.split(r"[,:=]", value)}
    return bool(names & words)

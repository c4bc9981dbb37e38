"""Jobs whose processes name no rank: titles rewritten, spawned children, Ray, a single program.

Here the tree of processes has to do.
"""

import itertools
import re
from collections.abc import Iterable, Sequence

from whyhang.analyzer.facts import Role, replace, whole
from whyhang.analyzer.job.launchers import LOCAL_SIZES, SCHEDULERS
from whyhang.collectors.live.job.environment import options
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import (
    HostJob,
    JobProcess,
    ambiguous,
    helper,
    helpers,
    inferred_rank,
    with_helpers,
)
from whyhang.collectors.live.words import gap

_RAY_CLASS = re.compile(r"ray::_?([A-Za-z0-9]+)")
_RAYS_OWN = {"IDLE", "DashboardAgent", "RuntimeEnvAgent"}
"""Titles of Ray's own processes: a worker without a task, and what serves a node."""
_MEETING = ("--rdzv-endpoint", "--master-addr", "--master-port")
"""Options of a launcher that say where the agents meet."""


def is_agent(host: Host, pid: int) -> bool:
    """Return whether a process is a launcher whose children are ranks, named or not."""
    kind = host.launcher(pid)
    return kind is not None and (kind not in SCHEDULERS or kind == "ray")


def launchers(host: Host, agents: Sequence[int]) -> list[JobProcess]:
    """Describe launchers, and those above them (deepspeed starts its own on each host).

    A launcher above a rank that started this launcher belongs to another job.
    """
    pids = list(agents)
    for agent in agents:
        free = itertools.takewhile(lambda pid: host.place(pid) is None, host.ancestors(agent))
        pids += [pid for pid in free if is_agent(host, pid)]
    return [helper(host, pid, Role.LAUNCHER) for pid in dict.fromkeys(pids)]


def unnamed(host: Host, agent: int, known: Iterable[JobProcess]) -> dict[int, JobProcess]:
    """Return numbers by elimination to children of a launcher whose environment is gone.

    A program that rewrote its title has no environment left, a dead one neither. Launchers
    start their ranks in order, so what is left over goes to the numbers that are missing.
    """
    members = list(known)
    taken = {member.pid for member in members}
    below = [pid for pid in host.children.get(agent, ()) if pid not in taken and host.nameless(pid)]
    mine = [member for member in members if member.ppid == agent]
    numbers = {m.rank if m.local_rank is None else m.local_rank for m in mine}
    expected = _local_size(host, mine) or len(mine) + len(below)
    free = [number for number in range(expected) if number not in numbers]
    bases = {m.rank - m.local_rank for m in mine if m.rank is not None and m.local_rank is not None}
    alone = not mine and not any("nnodes" in part for part in host.arguments(agent))
    base = bases.pop() if len(bases) == 1 else 0 if alone else None
    by_rank_only = bool(mine) and all(m.local_rank is None and m.rank is not None for m in mine)
    ranks: dict[int, JobProcess] = {}
    for number, pid in enumerate(below):
        local = free[number] if len(free) == len(below) else None
        rank = None if local is None or base is None else base + local
        if by_rank_only:
            rank, local = local, None  # what is left over are numbers of ranks
        ranks[pid] = inferred_rank(host, pid, rank, local)
    return ranks


def _local_size(host: Host, ranks: Iterable[JobProcess]) -> int | None:
    """Return how many ranks there should be on this host, by the environment of one of them."""
    sizes = (whole(host.environ(rank.pid).get(name)) for rank in ranks for name in LOCAL_SIZES)
    return next((size for size in sizes if size is not None), None)


def job_of_agent(host: Host, agent: int, pid: int) -> HostJob:
    """Describe a job whose launcher is known and of whose ranks none names its number."""
    kind = host.launcher(agent)
    if kind == "ray":
        return _job_of_ray(host, agent, pid)
    members = unnamed(host, agent, ())
    agents = [agent, *_fellows(host, agent)] if kind == "torchrun" and not members else [agent]
    above = launchers(host, agents)
    if not members and (root := _program_below(host, agent, pid)) is not None:
        alone = job_of_family(host, root)
        return replace(alone, members=(*alone.members, *above), launcher=kind)
    return HostJob(members=(*members.values(), *helpers(host, members), *above), launcher=kind)


def _fellows(host: Host, agent: int) -> list[int]:
    """List the agents of other nodes of the same job that run on this host, too.

    An agent that has started no rank says only by its command line which job it is of: the same
    script, started from the same session or shell, or sent to the same meeting.
    """
    mine = host.arguments(agent)
    meeting, session = options(mine, _MEETING), host.stats[agent].session
    excluded = {agent, *host.ancestors(agent)}
    return [
        pid
        for pid, stat in host.stats.items()
        if pid not in excluded
        and host.launcher(pid) == "torchrun"
        and _script_of(host.arguments(pid)) == _script_of(mine)
        and (
            stat.session == session
            or (meeting and options(host.arguments(pid), _MEETING) == meeting)
        )
    ]


def agent_below(host: Host, pid: int) -> int | None:
    """Find the agent that a shell or a script started; of several of one job the first."""
    agents = [one for one in host.descendants(pid) if host.launcher(one) == "torchrun"]
    scripts = {_script_of(host.arguments(one)) for one in agents}
    return agents[0] if len(scripts) == 1 else None


def _script_of(arguments: Sequence[str]) -> str:
    """Name the script that a launcher was given: its first argument that ends in ``.py``."""
    return next((word for word in arguments[1:] if word.endswith(".py")), "")


def _program_below(host: Host, agent: int, pid: int) -> int | None:
    """Find the one program that a launcher started without giving it a rank, if it did."""
    below = host.python_below(agent)
    chain = {pid, *host.ancestors(pid)}
    on_the_way = [one for one in below if one in chain]
    return next(iter(on_the_way or host.topmost(below)), None)


def _job_of_ray(host: Host, raylet: int, pid: int) -> HostJob:
    """Take the workers of one Ray actor class as ranks; their numbers are set at run time."""
    workers: dict[str, list[int]] = {}
    for child in host.children.get(raylet, ()):
        title = _RAY_CLASS.match(" ".join(host.arguments(child)))
        if title is not None and title[1] not in _RAYS_OWN:
            workers.setdefault(title[1], []).append(child)
    chain = {pid, *host.ancestors(pid)}
    same = [group for group in workers.values() if chain.intersection(group)]
    if not same and len(workers) > 1:
        raise ambiguous(pid, (group[0] for group in workers.values()), "kinds of Ray workers")
    chosen = same[0] if same else next(iter(workers.values()), [pid])
    return HostJob(members=with_helpers(host, chosen), launcher="ray")


def family_root(host: Host, pid: int) -> int:
    """Find the Python program that a process belongs to: above it, itself, or below it."""
    if host.is_python(pid):
        while host.place(pid) is None and host.is_mp_child(pid):
            pid = host.stats[pid].ppid
        return pid
    tops = host.topmost([one for one in host.python_below(pid) if not host.has_ended(one)])
    if len(tops) > 1:
        raise ambiguous(pid, tops, "Python programs")
    return tops[0] if tops else pid


def is_over(host: Host, pid: int) -> bool:
    """Return whether no Python program runs as this process or below it."""
    return not any(host.is_python(one) and not host.has_ended(one) for one in host.tree(pid))


def job_of_remains(host: Host, pid: int) -> HostJob:
    """Describe a job whose ranks have all ended: what started them, and those not collected."""
    left = [one for one in host.tree(pid) if not host.has_ended(one)]
    return HostJob(
        members=tuple(helper(host, one, Role.LAUNCHER) for one in left),
        launcher=next((kind for one in left if (kind := host.launcher(one))), None),
        left_out=(gap("remains", pid=pid, name=host.stats[pid].comm),),
    )


def job_of_family(host: Host, root: int) -> HostJob:
    """Describe a program without a rank; its children may still turn out to be ranks."""
    if host.is_spawned(root):
        return _job_of_orphans(host, root)
    raylet = next((one for one in host.descendants(root) if host.launcher(one) == "ray"), None)
    if raylet is not None:  # a driver that started a Ray of its own: its actors are the ranks
        return _job_of_ray(host, raylet, root)
    members = with_helpers(host, [root])
    unclear = any(
        member.role is Role.DATALOADER_WORKER and host.own_role(member.pid) is None
        for member in members
    )
    return HostJob(members=members, family=root if unclear else None)


def _job_of_orphans(host: Host, pid: int) -> HostJob:
    """Take together what one ``mp.spawn`` program left behind when it was killed."""
    stat = host.stats[pid]
    left = [
        one
        for one in host.children.get(stat.ppid, ())
        if host.is_spawned(one) and host.stats[one].session == stat.session
    ]
    members = [helper(host, one, Role.DATALOADER_WORKER, stat.ppid) for one in left]
    return HostJob(members=(*members, *helpers(host, left)), family=stat.ppid)

"""Which processes of this host belong to the job of one pid, and what each is in it.

The pid may be the launcher, a rank, a DataLoader worker or the shell above them. Ranks
belong together if they stand below one launcher, or name the same rendezvous, Slurm step or
MPI job in their environment (``collectors.ranks``). Where the environment names no rank
(``mp.spawn``, a program that rewrote its title) the tree of processes decides, and the
stacks settle the rest (``collectors.spawned``).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.model import Gap, Record, Role, Trust
from whyhang.collectors.host import SCHEDULERS, Host
from whyhang.collectors.ranks import (
    agent_of,
    helpers_of,
    local_size,
    one_per_rank,
    peers_of,
    rank_processes,
    strays,
)

_RAY_CLASS = re.compile(r"ray::_?([A-Za-z0-9]+)")


class Member(Record):
    """One process of the job. ``owner`` is the pid of the rank that a helper works for."""

    pid: int
    ppid: int
    role: Role
    rank: int | None = None
    trust: Trust = Trust.NONE
    local_rank: int | None = None
    owner: int | None = None
    python: bool = True


class Job(Record):
    """The processes of one job on this host: ranks by number, then their helpers, launchers.

    ``launcher`` is what started the ranks ("torchrun", "mpirun", "mp.spawn"). ``family`` is the
    pid of a Python process whose children carry no rank in their environment: whether they
    are ranks or helpers is only seen in their stacks. ``left_out`` names processes that look
    like the job's and were not counted in.
    """

    members: tuple[Member, ...]
    launcher: str | None = None
    world_size: int | None = None
    family: int | None = None
    left_out: tuple[Gap, ...] = ()


def find_job(host: Host, pid: int) -> Job:
    """Find the job of ``pid``. Raises ``TargetError`` where there is none to look at."""
    pid = check_target(host, pid)
    host.prefetch(_same_user(host, pid))
    seed = _seed(host, pid)
    if seed is not None:
        return _job_of_ranks(host, seed)
    agent = next((one for one in (pid, *host.ancestors(pid)) if _is_agent(host, one)), None)
    above = agent if agent is not None else _family_root(host, pid)
    seed = _seed(host, above)
    if seed is not None:
        return _job_of_ranks(host, seed)
    return _job_of_family(host, above) if agent is None else _job_of_agent(host, agent, pid)


def check_target(host: Host, pid: int) -> int:
    """Give the process that ``pid`` means (a thread id means its process) or say what is wrong."""
    stat = host.stats.get(pid) or host.proc.stat(pid)
    if stat is None:
        raise TargetError(
            f"there is no process {pid} on this host",
            "Look for it with: pgrep -af python. A pid of a container or of another host is not "
            "known here, and hidepid in the options of /proc hides those of other users.",
        )
    if stat.kernel:
        raise TargetError(
            f"process {pid} ({stat.comm}) is a thread of the kernel",
            "Give the pid of a process of the training job: pgrep -af python.",
        )
    if stat.state in {"Z", "X", "x"}:
        raise TargetError(
            f"process {pid} ({stat.comm}) has ended and waits to be collected by its parent, "
            f"process {stat.ppid}",
            f"Try the parent: whyhang {stat.ppid}. Its log says how the process ended.",
        )
    if pid not in host.stats:
        return host.proc.process_of(pid) or pid
    if not host.readable(pid):
        raise TargetError(
            f"process {pid} ({stat.comm}) belongs to {_user_name(host.proc.owner(pid))}, and this "
            "user may not look into it",
            f"Run it as that user or as root: sudo whyhang {pid}.",
        )
    return pid


def _user_name(uid: int | None) -> str:
    import pwd  # noqa: PLC0415 - rarely needed

    try:
        return f"user {pwd.getpwuid(uid).pw_name}" if uid is not None else "another user"
    except KeyError:
        return f"user {uid}"


def _same_user(host: Host, pid: int) -> list[int]:
    owner, own = host.proc.owner(pid), os.getpid()
    return [other for other in host.stats if other != own and host.proc.owner(other) == owner]


def _seed(host: Host, pid: int) -> int | None:
    """Give a process that names a rank: the pid itself, or one below it."""
    named = host.place(pid) is not None
    if named and host.is_python(pid):
        return pid
    below = [one for one in host.descendants(pid) if host.place(one) and host.is_python(one)]
    jobs = {(host.key(one) or (agent_of(host, one), host.script(one))): one for one in below[::-1]}
    if len(jobs) > 1:
        raise _ambiguous(pid, jobs.values(), "jobs")
    return below[0] if below else pid if named else None


def _ambiguous(pid: int, choices: Iterable[int], what: str) -> TargetError:
    listed = sorted(choices)
    return TargetError(
        f"there are {len(listed)} {what} below process {pid}",
        "Choose one of them: " + ", ".join(f"whyhang {one}" for one in listed[:8]) + ".",
    )


def _is_agent(host: Host, pid: int) -> bool:
    kind = host.launcher(pid)
    return kind is not None and (kind not in SCHEDULERS or kind == "ray")


def _job_of_ranks(host: Host, seed: int) -> Job:
    peers = peers_of(host, seed)
    ranks, left_out = one_per_rank(host, rank_processes(host, peers), seed)
    agents = list(dict.fromkeys(a for pid in ranks if (a := agent_of(host, pid)) is not None))
    members = {pid: _named(host, pid) for pid in ranks}
    if any(place.by == "lightning" for pid in ranks if (place := host.place(pid))):
        agents = _lightning_main(host, agents, members)
    for agent in agents:
        members |= _unnamed(host, agent, members)
    helpers = _helpers(host, members)
    helpers += [_helper(host, pid, host.own_role(pid), None) for pid in strays(host, peers)]
    seen = {*members, *(helper.pid for helper in helpers)}
    launchers = [_helper(host, pid, Role.LAUNCHER, None) for pid in _with_outer(host, agents)]
    sizes = Counter(p.world_size for pid in ranks if (p := host.place(pid)) and p.world_size)
    first = next((place for pid in ranks if (place := host.place(pid))), None)
    return Job(
        members=(
            *sorted(members.values(), key=by_rank),
            *helpers,
            *(member for member in launchers if member.pid not in seen),
        ),
        launcher=_launcher_name(host, agents) or (first.by if first else None),
        world_size=sizes.most_common(1)[0][0] if sizes else None,
        left_out=tuple(left_out),
    )


def by_rank(member: Member) -> tuple[bool, int, int]:
    """Order members by rank, those without one after them by pid."""
    return (member.rank is None, member.rank or 0, member.pid)


def _launcher_name(host: Host, agents: Sequence[int]) -> str | None:
    kinds = [host.launcher(agent) for agent in agents]
    return next((kind for kind in kinds if kind), "python" if agents else None)


def _with_outer(host: Host, agents: Sequence[int]) -> list[int]:
    """Add launchers above launchers (deepspeed starts its own launcher on each host)."""
    outer = [pid for agent in agents for pid in host.ancestors(agent) if _is_agent(host, pid)]
    return list(dict.fromkeys([*agents, *outer]))


def _named(host: Host, pid: int) -> Member:
    place = host.place(pid)
    rank = place.rank if place else None
    return Member(
        pid=pid,
        ppid=host.stats[pid].ppid,
        role=Role.RANK,
        rank=rank,
        trust=Trust.NONE if rank is None else Trust.ENVIRONMENT,
        local_rank=place.local_rank if place else None,
        python=host.is_python(pid),
    )


def _helper(host: Host, pid: int, role: Role | None, owner: int | None) -> Member:
    return Member(
        pid=pid,
        ppid=host.stats[pid].ppid,
        role=role or Role.OTHER,
        owner=owner,
        python=host.is_python(pid),
    )


def _helpers(host: Host, ranks: Iterable[int]) -> list[Member]:
    own = set(ranks)
    return [
        _helper(host, pid, role, rank) for rank in own for pid, role in helpers_of(host, rank, own)
    ]


def _lightning_main(host: Host, agents: list[int], members: dict[int, Member]) -> list[int]:
    """Count the script that Lightning began with as local rank 0; it starts the others."""
    taken = {member.local_rank for member in members.values()}
    for agent in agents:
        if 0 not in taken and host.launcher(agent) is None:
            first = next(iter(members))
            node = host.environ(first).get("NODE_RANK")
            members[agent] = Member(
                pid=agent,
                ppid=host.stats[agent].ppid,
                role=Role.RANK,
                rank=0 if node == "0" else None,
                trust=Trust.INFERRED if node == "0" else Trust.NONE,
                local_rank=0,
            )
            return [other for other in agents if other != agent]
    return agents


def _unnamed(host: Host, agent: int, named: dict[int, Member]) -> dict[int, Member]:
    """Give numbers by elimination to children of a launcher whose environment is gone.

    A program that rewrote its title has no environment left, a dead one neither. Launchers
    start their ranks in order, so what is left over goes to the numbers that are missing.
    """
    below = [pid for pid in host.children.get(agent, ()) if pid not in named and host.nameless(pid)]
    mine = [member for member in named.values() if member.ppid == agent]
    taken = {m.rank if m.local_rank is None else m.local_rank for m in mine}
    expected = local_size(host, [member.pid for member in mine]) or len(mine) + len(below)
    free = [number for number in range(expected) if number not in taken]
    bases = {m.rank - m.local_rank for m in mine if m.rank is not None and m.local_rank is not None}
    alone = not mine and not any("nnodes" in part for part in host.arguments(agent))
    base = bases.pop() if len(bases) == 1 else 0 if alone else None
    found: dict[int, Member] = {}
    for number, pid in enumerate(below):
        local = free[number] if len(free) == len(below) else None
        rank = None if local is None or base is None else base + local
        found[pid] = Member(
            pid=pid,
            ppid=agent,
            role=Role.RANK,
            rank=rank,
            trust=Trust.NONE if rank is None else Trust.INFERRED,
            local_rank=local,
        )
    return found


def _job_of_agent(host: Host, agent: int, pid: int) -> Job:
    """Describe a job whose launcher is known and of whose ranks none names its number."""
    kind = host.launcher(agent)
    if kind == "ray":
        return _job_of_ray(host, agent, pid)
    members = _unnamed(host, agent, {})
    launchers = [_helper(host, one, Role.LAUNCHER, None) for one in _with_outer(host, [agent])]
    return Job(members=(*members.values(), *_helpers(host, members), *launchers), launcher=kind)


def _job_of_ray(host: Host, raylet: int, pid: int) -> Job:
    """Take the workers of one Ray actor class as ranks; their numbers are set at run time."""
    workers: dict[str, list[int]] = {}
    for child in host.children.get(raylet, ()):
        title = _RAY_CLASS.match(" ".join(host.arguments(child)))
        if title is not None and title.group(1) != "IDLE":
            workers.setdefault(title.group(1), []).append(child)
    chain = {pid, *host.ancestors(pid)}
    same = [group for group in workers.values() if chain.intersection(group)]
    if not same and len(workers) > 1:
        raise _ambiguous(pid, (group[0] for group in workers.values()), "kinds of Ray workers")
    chosen = same[0] if same else next(iter(workers.values()), [pid])
    members = {one: _named(host, one) for one in chosen}
    return Job(members=(*members.values(), *_helpers(host, members)), launcher="ray")


def _family_root(host: Host, pid: int) -> int:
    """Find the Python program that a process belongs to: above it, itself, or below it."""
    if not host.is_python(pid):
        below = [one for one in host.descendants(pid) if host.is_python(one)]
        tops = [one for one in below if not set(below).intersection(host.ancestors(one))]
        if not tops:
            raise TargetError(
                f"process {pid} ({host.stats[pid].comm}) is no Python program, and there is none "
                "below it",
                "Give the pid of the launcher or of a rank: pgrep -af python.",
            )
        if len(tops) > 1:
            raise _ambiguous(pid, tops, "Python programs")
        return tops[0]
    while host.place(pid) is None and host.is_mp_child(pid):
        pid = host.stats[pid].ppid
    return pid


def _job_of_family(host: Host, root: int) -> Job:
    """Describe a program without a rank; its children may still turn out to be ranks."""
    members = {root: _named(host, root)}
    helpers = _helpers(host, members)
    unclear = any(
        helper.role is Role.DATALOADER_WORKER and host.own_role(helper.pid) is None
        for helper in helpers
    )
    return Job(members=(*members.values(), *helpers), family=root if unclear else None)

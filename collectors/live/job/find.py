"""Which processes of this host belong to the job of one pid, and what each is in it.

The pid may be the launcher, a rank, a DataLoader worker or the shell above them. Ranks
belong together if they stand below one launcher, or name the same rendezvous, Slurm step or
MPI job in their environment (``collectors.live.job.ranks``). Where the environment names no rank
(``mp.spawn``, a program that rewrote its title) the tree of processes decides
(``collectors.live.job.unnamed``), and the stacks settle the rest (``collectors.live.job.spawned``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from whyhang.analyzer.model import Role, Trust
from whyhang.collectors.live.job.alike import alike, job_of_alike
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import (
    Job,
    Member,
    ambiguous,
    by_rank,
    helper,
    helpers,
    named,
)
from whyhang.collectors.live.job.ranks import (
    agent_of,
    launches,
    one_per_rank,
    peers_of,
    rank_processes,
    strays,
)
from whyhang.collectors.live.job.target import check_target
from whyhang.collectors.live.job.unnamed import (
    agent_below,
    family_root,
    is_agent,
    job_of_agent,
    job_of_family,
    unnamed,
    with_outer,
)


def find_job(host: Host, pid: int) -> Job:
    """Find the job of ``pid``. Raises ``TargetError`` where there is none to look at."""
    pid = check_target(host, pid)
    host.prefetch(_same_user(host, pid))
    seed = _seed(host, pid)
    if seed is not None:
        return _job_of_ranks(host, seed)
    agent = next((one for one in (pid, *host.ancestors(pid)) if is_agent(host, one)), None)
    if agent is None:
        agent = agent_below(host, pid)
    if agent is None and (same := alike(host, _program(host, pid))):
        return job_of_alike(host, same, pid)
    above = agent if agent is not None else family_root(host, pid)
    seed = _seed(host, above)
    if seed is not None:
        return _job_of_ranks(host, seed)
    return job_of_family(host, above) if agent is None else job_of_agent(host, agent, pid)


def _program(host: Host, pid: int) -> int:
    """Give the program that a Python process belongs to, or the process itself."""
    return family_root(host, pid) if host.is_python(pid) else pid


def _same_user(host: Host, pid: int) -> list[int]:
    owner, own = host.proc.owner(pid), os.getpid()
    return [other for other in host.stats if other != own and host.proc.owner(other) == owner]


def _seed(host: Host, pid: int) -> int | None:
    """Give a process that names a rank: the pid itself, or one below it."""
    says = host.place(pid) is not None
    if says and host.is_python(pid) and not launches(host, pid):
        return pid
    below = [
        one
        for one in host.descendants(pid)
        if host.place(one) and host.is_python(one) and not _named_by_a_child(host, one, pid)
    ]
    jobs = {(host.key(one) or (agent_of(host, one), host.script(one))): one for one in below[::-1]}
    if len(jobs) > 1 and len(_apart(host, jobs.values())) > 1:
        raise ambiguous(pid, jobs.values(), "jobs")
    return below[0] if below else pid if says else None


def _apart(host: Host, seeds: Iterable[int]) -> list[int]:
    """Keep one process of each job: ranks that were only led astray belong to the first."""
    left: list[int] = []
    known: set[int] = set()
    for pid in seeds:
        if pid not in known:
            left.append(pid)
            known.update(peers_of(host, pid))
    return left


def _named_by_a_child(host: Host, one: int, top: int) -> bool:
    """Tell whether a process has its rank from a spawned process that set it at run time.

    ``mp.spawn`` programs put RANK into ``os.environ``: their own environment at exec names none,
    but a program that such a rank starts (a decoder, a compiler) inherits it.
    """
    between = []
    for ancestor in host.ancestors(one):
        if ancestor == top:
            break
        between.append(ancestor)
    return any(
        host.is_python(each) and host.place(each) is None and host.is_mp_child(each)
        for each in between
    )


def _job_of_ranks(host: Host, seed: int) -> Job:
    peers = peers_of(host, seed)
    ranks, left_out = one_per_rank(host, rank_processes(host, peers), seed)
    agents = list(dict.fromkeys(a for pid in ranks if (a := agent_of(host, pid)) is not None))
    members = {pid: named(host, pid) for pid in ranks}
    if any(place.by == "lightning" for pid in ranks if (place := host.place(pid))):
        agents = _lightning_main(host, agents, members)
    for agent in agents:
        members |= unnamed(host, agent, members)
    below = helpers(host, members)
    below += [helper(host, pid, host.own_role(pid), None) for pid in strays(host, peers)]
    seen = {*members, *(member.pid for member in below)}
    launchers = [helper(host, pid, Role.LAUNCHER, None) for pid in with_outer(host, agents)]
    sizes = Counter(p.world_size for pid in ranks if (p := host.place(pid)) and p.world_size)
    first = next((place for pid in ranks if (place := host.place(pid))), None)
    return Job(
        members=(
            *sorted(members.values(), key=by_rank),
            *below,
            *(member for member in launchers if member.pid not in seen),
        ),
        launcher=_launcher_name(host, agents) or (first.by if first else None),
        world_size=sizes.most_common(1)[0][0] if sizes else None,
        left_out=tuple(left_out),
    )


def _launcher_name(host: Host, agents: Sequence[int]) -> str | None:
    kinds = [host.launcher(agent) for agent in agents]
    return next((kind for kind in kinds if kind), "python" if agents else None)


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

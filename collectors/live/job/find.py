"""Which processes of this host belong to the job of one pid, and what each is in it.

The pid may be the launcher, a rank, a DataLoader worker or the shell above them. Ranks
belong together if they stand below one launcher, or name the same rendezvous, Slurm step or
MPI job in their environment (``ranks.py``). Where the environment names no rank (``mp.spawn``, a
program that rewrote its title) the tree of processes decides (``unnamed.py``), and the stacks
settle the rest (``by_stacks.py``).
"""

import contextlib
import os
import pwd
from collections import Counter
from collections.abc import Iterable

from whyhang.analyzer.facts.processes import ENDED_STATES
from whyhang.collectors.live.job.by_stacks import alike, job_of_alike
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import (
    HostJob,
    JobProcess,
    ambiguous,
    by_rank,
    helper,
    helpers,
    inferred_rank,
    rank_by_environment,
)
from whyhang.collectors.live.job.ranks import (
    agent_of,
    launches,
    one_per_rank,
    peers_of,
    rank_processes,
    strays,
)
from whyhang.collectors.live.job.unnamed import (
    agent_below,
    family_root,
    is_agent,
    is_over,
    job_of_agent,
    job_of_family,
    job_of_remains,
    launchers,
    unnamed,
)
from whyhang.collectors.live.words import refusal


def find_job(host: Host, pid: int) -> HostJob:
    """Find the job of ``pid``. Raises ``TargetError`` where there is none to look at."""
    pid = _checked(host, pid)
    owner = host.proc.owner(pid)
    host.prefetch([one for one in host.stats if host.proc.owner(one) == owner])
    seed = _seed(host, pid)
    if seed is not None:
        return _job_of_ranks(host, seed)
    agent = next((one for one in (pid, *host.ancestors(pid)) if is_agent(host, one)), None)
    if agent is None:
        agent = agent_below(host, pid)
    if agent is None and is_over(host, pid):
        return job_of_remains(host, pid)
    if agent is None:
        program = family_root(host, pid) if host.is_python(pid) else pid
        if same := alike(host, program):
            return job_of_alike(host, same, pid)
    above = agent if agent is not None else family_root(host, pid)
    seed = _seed(host, above)
    if seed is not None:
        return _job_of_ranks(host, seed)
    return job_of_family(host, above) if agent is None else job_of_agent(host, agent, pid)


def _seed(host: Host, pid: int) -> int | None:
    """Return a process that names a rank: the pid itself, or one below it."""
    says = host.place(pid) is not None
    if says and host.is_python(pid) and not launches(host, pid):
        return pid
    below = [
        one
        for one in host.python_below(pid)
        if host.place(one) and not _named_by_a_child(host, one, pid)
    ]
    if not host.is_python(pid) and not any(map(host.is_python, host.descendants(pid))):
        below = [one for one in host.descendants(pid) if host.place(one) and host.uses_torch(one)]
    jobs = {(host.key(one) or (agent_of(host, one), host.script(one))): one for one in below[::-1]}
    if len(jobs) > 1 and len(_one_per_job(host, jobs.values())) > 1:
        raise ambiguous(pid, jobs.values(), "jobs")
    return below[0] if below else pid if says else None


def _one_per_job(host: Host, seeds: Iterable[int]) -> list[int]:
    """Keep one process of each job: ranks that were only led astray belong to the first."""
    kept: list[int] = []
    peers: set[int] = set()
    for pid in seeds:
        if pid not in peers:
            kept.append(pid)
            peers.update(peers_of(host, pid))
    return kept


def _named_by_a_child(host: Host, one: int, top: int) -> bool:
    """Return whether a process has its rank from a spawned process that set it at run time.

    ``mp.spawn`` programs put RANK into ``os.environ``: their own environment at exec names none,
    but a program that such a rank starts (a decoder, a compiler) inherits it.
    """
    return any(
        host.is_python(each) and host.place(each) is None and host.is_mp_child(each)
        for each in host.between(one, top)
    )


def _job_of_ranks(host: Host, seed: int) -> HostJob:
    peers = peers_of(host, seed)
    ranks, left_out = one_per_rank(host, rank_processes(host, peers), seed)
    places = [place for pid in ranks if (place := host.place(pid))]
    agents = list(dict.fromkeys(a for pid in ranks if (a := agent_of(host, pid)) is not None))
    members = {pid: rank_by_environment(host, pid) for pid in ranks}
    if any(place.by == "lightning" for place in places):
        agents = _lightning_main(host, agents, members)
    for agent in agents:
        members |= unnamed(host, agent, members.values())
    below = helpers(host, members)
    below += [helper(host, pid, host.own_role(pid)) for pid in strays(host, peers)]
    seen = {*members, *(member.pid for member in below)}
    sizes = Counter(place.world_size for place in places if place.world_size)
    kinds = [kind for agent in agents if (kind := host.launcher(agent))]
    started_by = [*kinds[:1], *(["python"] if agents else []), *(place.by for place in places)]
    return HostJob(
        members=(
            *sorted(members.values(), key=by_rank),
            *below,
            *(member for member in launchers(host, agents) if member.pid not in seen),
        ),
        launcher=next(iter(started_by), None),
        world_size=sizes.most_common(1)[0][0] if sizes else None,
        left_out=tuple(left_out),
    )


def _lightning_main(host: Host, agents: list[int], members: dict[int, JobProcess]) -> list[int]:
    """Count the script that Lightning began with as local rank 0; it starts the others."""
    taken = {member.local_rank for member in members.values()}
    main = next((agent for agent in agents if host.launcher(agent) is None), None)
    if main is None or 0 in taken:
        return agents
    node = host.environ(next(iter(members))).get("NODE_RANK")
    members[main] = inferred_rank(host, main, 0 if node == "0" else None, 0)
    return [agent for agent in agents if agent != main]


def _checked(host: Host, pid: int) -> int:
    """Return the process that ``pid`` means: that of a thread, too. Raises ``TargetError``."""
    stat = host.stats.get(pid) or host.proc.stat(pid)
    if stat is None:
        no_proc = not host.stats and host.proc.bytes_of("self/stat") is None
        raise refusal("no-proc" if no_proc else "no-process", pid=pid)
    if stat.kernel:
        raise refusal("kernel-thread", pid=pid, name=stat.comm)
    if stat.state in ENDED_STATES:
        how = "ended" if stat.ppid > 1 else "ended-below-init"
        raise refusal(how, pid=pid, name=stat.comm, parent=stat.ppid)
    if pid not in host.stats:  # the id of a thread: /proc/TID exists, though it is not listed
        status = host.proc.status(pid)
        process = status.process or pid if status is not None else pid
        if process == os.getpid():
            raise refusal("itself", pid=pid)
        return process
    if not host.readable(pid):
        now = host.proc.stat(pid)
        if now is None or now.state in ENDED_STATES:  # it ended since it was listed
            raise refusal("no-process", pid=pid)
        owner = host.proc.owner(pid)
        user = f"user {owner}"
        with contextlib.suppress(KeyError):
            user = f"user {pwd.getpwuid(owner or 0).pw_name}"
        how = "protected" if owner == os.geteuid() else "of-another-user"
        raise refusal(how, pid=pid, name=stat.comm, user=user)
    return pid

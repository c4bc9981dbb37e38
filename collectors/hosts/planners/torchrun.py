"""The hosts of a job that meets at one address: torchrun, or whatever sets MASTER_ADDR.

The agents of torchrun are connected to the store at ``--rdzv-endpoint``, the ranks to the one at
``MASTER_ADDR:MASTER_PORT``. So any host of the job knows where the store is, and the host of the
store has a connection from each of the others.
"""

from collections.abc import Iterable, Iterator

from whyhang.analyzer.job.launch import Plan, plan_of_agent
from whyhang.collectors.hosts.reach import KnownHosts
from whyhang.collectors.live.job.environment import options
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob
from whyhang.collectors.live.sockets import connected

_ENDPOINTS = ("--rdzv-endpoint", "--master-addr")


def known(host: Host, job: HostJob) -> KnownHosts | None:
    """Return the hosts that can be known here; None where all of the job's ranks are here."""
    size, here = job.world_size, len(job.ranks)
    agents = [m.pid for m in job.members if host.launcher(m.pid) == "torchrun"]
    plans = [plan_of_agent(host.arguments(pid), host.environ(pid)) for pid in agents]
    nodes = max((plan.nodes()[1] or 1 for plan in plans), default=0)
    if job.ranks:
        groups = host.environ(job.ranks[0].pid).get("GROUP_WORLD_SIZE", "")
        nodes = max(nodes, int(groups) if groups.isdecimal() else 0)
        if nodes == 1 or (not nodes and (size is None or size <= here)):
            return None
    elif nodes < 2:
        return None
    places = dict.fromkeys(_places(host, job, plans))
    members = [member.pid for member in job.members]
    names = dict.fromkeys(name for name, _ in places if name)
    ports = frozenset(port for _, port in places)
    names |= dict.fromkeys(a for pid in members[:1] for a in connected(host.proc, pid, ports))
    master = next(iter(names), "an unknown address")
    return KnownHosts(
        sentence=f"the job that meets at {master}",
        names=tuple(names),
        count=nodes or None,
        pid=members[0],
        words=tuple(w for p in agents[:1] for w in options(host.arguments(p), _ENDPOINTS)),
    )


def _places(host: Host, job: HostJob, plans: Iterable[Plan]) -> Iterator[tuple[str, int]]:
    """Yield where the job meets: host and port."""
    for member in job.ranks[:1]:
        environ = host.environ(member.pid)
        port = environ.get("MASTER_PORT", "")
        yield environ.get("MASTER_ADDR", ""), int(port) if port.isdecimal() else 0
    yield from filter(None, (plan.given_endpoint() for plan in plans))

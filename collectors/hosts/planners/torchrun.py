"""The hosts of a job that meets at one address: torchrun, or whatever sets MASTER_ADDR.

The agents of torchrun are connected to the store at ``--rdzv-endpoint``, the ranks to the one at
``MASTER_ADDR:MASTER_PORT``. So any host of the job knows where the store is, and the host of the
store has a connection from each of the others.
"""

from collections.abc import Iterator

from whyhang.collectors.hosts.reach import Known
from whyhang.collectors.live.job.environment import options
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob
from whyhang.collectors.live.sockets import connected

_ENDPOINTS = ("--rdzv-endpoint", "--master-addr")
_PORTS = ("--master-port",)
_DEFAULT_PORT = 29400  # of torchrun's c10d store, and of its --master-port 29500
_DEFAULT_MASTER_PORT = 29500


def known(host: Host, job: HostJob) -> Known | None:
    """Return the hosts that can be known here; None where all of the job's ranks are here."""
    size, here = job.world_size, len(job.ranks)
    agents = [m.pid for m in job.members if host.launcher(m.pid) == "torchrun"]
    nodes = max((_nodes(host, pid) for pid in agents), default=0)
    if job.ranks:
        groups = host.environ(job.ranks[0].pid).get("GROUP_WORLD_SIZE", "")
        nodes = max(nodes, int(groups) if groups.isdecimal() else 0)
        if nodes == 1 or (not nodes and (size is None or size <= here)):
            return None
    elif nodes < 2:
        return None
    places = dict.fromkeys(_places(host, job, agents))
    members = [member.pid for member in job.members]
    names = dict.fromkeys(name for name, _ in places if name)
    ports = frozenset(port for _, port in places)
    names |= dict.fromkeys(a for pid in members[:1] for a in connected(host.proc, pid, ports))
    master = next(iter(names), "an unknown address")
    return Known(
        sentence=f"the job that meets at {master}",
        names=tuple(names),
        count=nodes or None,
        pid=members[0],
        words=tuple(w for p in agents[:1] for w in options(host.arguments(p), _ENDPOINTS)),
    )


def _places(host: Host, job: HostJob, agents: list[int]) -> Iterator[tuple[str, int]]:
    """Yield where the job meets: host and port."""
    for member in job.ranks[:1]:
        environ = host.environ(member.pid)
        port = environ.get("MASTER_PORT", "")
        yield environ.get("MASTER_ADDR", ""), int(port) if port.isdecimal() else 0
    for pid in agents:
        arguments = host.arguments(pid)
        ports = [int(text) for text in options(arguments, _PORTS) if text.isdecimal()]
        for text in options(arguments, _ENDPOINTS):
            name, colon, port = text.rpartition(":")
            if colon and port.isdecimal():
                yield name.strip("[]"), int(port)
            else:
                yield text, next(iter(ports), _DEFAULT_PORT)
                yield text, _DEFAULT_MASTER_PORT


def _nodes(host: Host, pid: int) -> int:
    """Return of how many nodes an agent says that its job has; of "1:4" the larger number."""
    texts = options(host.arguments(pid), ("--nnodes",))
    numbers = [int(part) for text in texts for part in text.split(":") if part.isdecimal()]
    return max(numbers, default=1)

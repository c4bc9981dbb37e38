"""From a process of this host to all hosts of its job.

Open MPI's mpirun and PRRTE's prterun start a daemon on each host (``orted``, ``prted``) by ssh, and
so does MPICH's and Intel's Hydra (``hydra_pmi_proxy``). So the host of mpirun has an ssh to each of
the others, with its name; a daemon has the address of mpirun on its command line. Where mpirun
started nothing yet, its hostfile and ``--host`` say what it was given.

Other jobs meet at one address: the agents of torchrun are connected to the store at
``--rdzv-endpoint``, the ranks to the one at ``MASTER_ADDR:MASTER_PORT``. So any host of the job
knows where the store is, and the host of the store has a connection from each of the others.
"""

import os
import posixpath
import re
import socket
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.facts import replace, whole
from whyhang.analyzer.job.launch import Plan, plan_of_agent
from whyhang.analyzer.job.sockets import is_address
from whyhang.collectors.hosts import remote_host
from whyhang.collectors.hosts.planners import ssh
from whyhang.collectors.hosts.reach import (
    KnownHosts,
    Reach,
    ReachedHost,
    Selector,
    resolved,
    selector_of,
)
from whyhang.collectors.live.job.environment import options
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.sockets import connected, own_addresses

CONNECT = 3
"""Seconds that ssh tries to connect, where nobody asked for other hosts by name."""

PATIENCE = 4.0

_HEADS = {"mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra", "mpirun.openmpi"}
_HEADS |= {"mpiexec.openmpi", "mpiexec.mpich"}
_REMOTE = {"ssh", "rsh"}
_ALONE = "46AaCfGgKkMNnqsTtVvXxYy"  # options of ssh(1) that take no value
_FILES = ("--hostfile", "-hostfile", "--machinefile", "-machinefile", "--default-hostfile", "-f")
_LISTS = ("--host", "-host", "-H", "-hosts", "--hosts")
_HEAD_URI = re.compile(r"tcp6?://([\d.,]+|\[[^\]]+\]):\d+")
_CONTROL_PORT = re.compile(r"--control-port[= ](\S+):\d+")
_ENDPOINTS = ("--rdzv-endpoint", "--master-addr")


def known(host: Host, job: HostJob) -> KnownHosts | None:
    """Return what is known here of the other hosts of a job; None where it has no others."""
    return _by_mpi(host, job) or _by_meeting_place(host, job)


def reach(host: Host, job: HostJob) -> Reach | None:
    """Return how to reach all hosts of a job of this one; None where it runs here alone."""
    there = known(host, job)
    if there is None:
        return None
    others = others_of(host, there)
    hosts = tuple(ssh.host(name, connect=CONNECT) for name in others)
    seed = (job.ranks or job.members)[0].pid
    named = f"{', '.join(others[:4])}{', …' if len(others) > 4 else ''}"
    sentence = f"this host and, by ssh, {named}: {there.sentence}"
    return Reach(
        kind="ssh" if others else "local",
        sentence=sentence if others else f"this host: {there.sentence}",
        hosts=(ReachedHost(name=os.uname().nodename, pids=(seed,)), *hosts) if hosts else (),
        selector=selector_of(host, seed) if job.ranks else Selector(words=there.words),
        gaps=() if others else (remote_host.not_all_known(1, there.count or 2),),
        patience=PATIENCE,
        count=there.count,
        grows=True,
    )


def with_own_host(reach: Reach, pids: Sequence[int]) -> Reach:
    """Return how to reach hosts that were named, and this one, where processes were named, too."""
    node = os.uname().nodename
    proc = Proc()
    own = {node, node.partition(".")[0], "localhost", *own_addresses(proc, os.getpid())}
    names = {host.name: host.name.rpartition("@")[2] for host in reach.hosts}
    addresses = resolved(names.values(), socket.gethostbyname)
    own |= {name for name in names.values() if _is_loopback(name)}
    if any(name in own or addresses.get(name) in own for name in names.values()):
        return reach
    here = ReachedHost(name=node, pids=tuple(pids))
    sentence = f"this host and {reach.sentence}"
    return replace(reach, hosts=(here, *reach.hosts), sentence=sentence)


def others_of(host: Host, there: KnownHosts) -> list[str]:
    """Return names that ssh knows for what was found, without this host's own."""
    node = os.uname().nodename
    own = own_addresses(host.proc, there.pid)
    own |= {"localhost", node, node.partition(".")[0]}
    others = [name for name in there.names if name not in own and not name.startswith("127.")]
    addresses = resolved(others, socket.gethostbyname)
    others = [name for name in others if addresses.get(name) not in own]
    names = resolved(filter(is_address, others), _name_of)
    return [name for name in dict.fromkeys(names.get(n) or n for n in others) if ssh.is_name(name)]


def _name_of(address: str) -> str:
    """Return the name of an address, where it leads back to it."""
    name = socket.gethostbyaddr(address)[0]
    back = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    return name if address in back else ""


def _is_loopback(name: str) -> bool:
    return name in {"localhost", "::1"} or name.startswith("127.")


def _by_mpi(host: Host, job: HostJob) -> KnownHosts | None:
    """Return the hosts of an MPI job, from the command lines of what started it."""
    members = [member.pid for member in job.members]
    above = dict.fromkeys([*members, *(pid for one in members for pid in host.ancestors(one))])
    launchers = [pid for pid in above if host.launcher(pid) == "mpirun"]
    if not launchers:
        return None
    heads = [pid for pid in launchers if _program(host, pid) in _HEADS]
    names = dict.fromkeys(name for pid in heads for name in _of_head(host, pid))
    if not names:
        names = dict.fromkeys(name for pid in launchers for name in _of_daemon(host, pid))
    if not names:
        return None
    head = heads[0] if heads else launchers[0]
    return KnownHosts(
        sentence=f"the job of {_program(host, head)} {head}",
        names=tuple(names),
        count=None,
        pid=members[0],
    )


def _program(host: Host, pid: int) -> str:
    return posixpath.basename((host.arguments(pid) or ("",))[0])


def _of_head(host: Host, pid: int) -> Iterator[str]:
    """Yield the hosts to which mpirun has an ssh; where there is none, those it was given."""
    started = [name for child in host.descendants(pid) if (name := _ssh_to(host.arguments(child)))]
    if started:
        yield from started
        return
    arguments = host.arguments(pid)
    for text in options(arguments, _LISTS):
        yield from (part.partition(":")[0] for part in text.split(",") if part)
    for path in options(arguments, _FILES):
        content = host.files.read(host.proc.path_for(pid, path), most=1 << 20)
        yield from ssh.hostfile(content.data.decode(errors="replace").splitlines())


def _ssh_to(arguments: tuple[str, ...]) -> str | None:
    """Return the host on a command line of ssh."""
    if not arguments or posixpath.basename(arguments[0]) not in _REMOTE:
        return None
    rest = iter(arguments[1:])
    for word in rest:
        if word == "--":
            return next(rest, None)
        if not word.startswith("-"):
            return word
        if len(word) == 2 and word[1] not in _ALONE:
            next(rest, None)
    return None


def _of_daemon(host: Host, pid: int) -> Iterator[str]:
    """Yield the address of mpirun, of which its daemons have several to choose from."""
    line = " ".join(host.arguments(pid))
    if match := _HEAD_URI.search(line):
        yield match[1].strip("[]").partition(",")[0]
    if match := _CONTROL_PORT.search(line):
        yield match[1]


def _by_meeting_place(host: Host, job: HostJob) -> KnownHosts | None:
    """Return the hosts of a job that meets somewhere; None where all of its ranks are here."""
    size, here = job.world_size, len(job.ranks)
    agents = [m.pid for m in job.members if host.launcher(m.pid) == "torchrun"]
    plans = [plan_of_agent(host.arguments(pid), host.environ(pid)) for pid in agents]
    nodes = max((plan.nodes()[1] or 1 for plan in plans), default=0)
    if job.ranks:
        nodes = max(nodes, whole(host.environ(job.ranks[0].pid).get("GROUP_WORLD_SIZE")) or 0)
        if nodes == 1 or (not nodes and (size is None or size <= here)):
            return None
    elif nodes < 2:
        return None
    if 1 < nodes <= len(agents):
        return None  # all agents are here
    places = dict.fromkeys(_places(host, job, plans))
    members = [member.pid for member in job.members]
    names = dict.fromkeys(name for name, _ in places if name)
    ports = frozenset(port for _, port in places)
    names |= dict.fromkeys(a for pid in members[:1] for a in connected(host.proc, pid, ports))
    if not nodes and names and all(map(_is_loopback, names)):
        return None  # a rank that has ended is missing here, and nowhere else
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
        yield environ.get("MASTER_ADDR", ""), whole(environ.get("MASTER_PORT")) or 0
    yield from filter(None, (plan.given_endpoint() for plan in plans))

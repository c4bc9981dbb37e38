"""Where the processes of a job are to meet: the addresses of its stores.

Told by what ranks were called with, their environment, torchrun's options, and open ports.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from whyhang.analyzer.facts import InitArguments, Process, Record, Role
from whyhang.analyzer.job.launch import plan_of_agent
from whyhang.analyzer.job.sockets import tcp_sockets
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob

MAX_PLACES = 8

_WILDCARDS = {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound to

_Key: TypeAlias = tuple[str, int, str, str]
"""Name and port of a place, and the namespaces of network and files in which they are meant."""


class MeetingPlace(Record):
    """An address where processes are to meet; ``pids`` are those that were told so."""

    host: str
    port: int
    pids: tuple[int, ...]
    world_size: int = 0


def meeting_places(
    host: Host, job: HostJob, processes: Mapping[int, Process], spots: Iterable[InitArguments] = ()
) -> list[MeetingPlace]:
    """List where the job's processes meet: by arguments, environment, options, open ports.

    ``processes`` are the records of a snapshot; ``spots`` what ranks in ``init_process_group`` were
    told, which goes before their environment. A port counts as a store's only where its owner has
    the thread of torch's store and listens on one port of all interfaces: other listeners (gloo,
    NCCL) must not be spoken to.
    """
    places: dict[_Key, list[int]] = {}
    addresses = {spot.who.pid: spot.address for spot in spots if spot.address is not None}
    for member in job.members:
        pid, environ = member.pid, host.environ(member.pid)
        named: list[tuple[str, str]] = []
        if pid in addresses:
            named = [(addresses[pid].host, str(addresses[pid].port))]
        elif member.role is Role.RANK:
            named = [(environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", ""))]
        elif member.role is Role.LAUNCHER:
            given = plan_of_agent(host.arguments(pid), environ).given_endpoint()
            named = [(given[0], str(given[1]))] if given is not None else []
        for name, port in named:
            if name and port.isdecimal() and 0 < int(port) < 65536:
                places.setdefault(_key(host, pid, name, int(port)), []).append(pid)
    known = {port for _, port, _, _ in places}
    for pid, process in processes.items():
        own = _own_port(process)
        if own is not None and own not in known:
            places.setdefault(_key(host, pid, "localhost", own), []).append(pid)
    return [
        MeetingPlace(host=name, port=port, pids=tuple(pids), world_size=_size(host, job, pids))
        for (name, port, _, _), pids in list(places.items())[:MAX_PLACES]
    ]


def _key(host: Host, pid: int, name: str, port: int) -> _Key:
    """Add the namespaces that decide what an address and a name of a host mean to a process."""
    proc = host.proc
    return name, port, proc.namespace(pid, "net") or "", proc.namespace(pid, "mnt") or ""


def _size(host: Host, job: HostJob, pids: Iterable[int]) -> int:
    sizes = [place.world_size or 0 for pid in pids if (place := host.place(pid))]
    return max([*sizes, job.world_size or 0])


def _own_port(process: Process) -> int | None:
    """Return the port of the store that runs inside a process, where it can be told."""
    threads = {thread.name for thread in process.threads}
    if not any(name.startswith("pt_tcpstore") for name in threads):
        return None
    sockets = [s for s in tcp_sockets(process) if s.state == "listen"]
    ports = {s.own.port for s in sockets if s.own.host in _WILDCARDS}
    return ports.pop() if len(ports) == 1 and "pt_workerserver" not in threads else None

"""The connections of each rank by process group over gloo, and in which groups it is in a call.

torch makes a device of gloo's for each process group: a thread of its own that waits for the
group's connections by epoll, which /proc/PID/fdinfo lists, and after it the threads that run the
group's collectives. One of these that runs none waits for work without a limit; within a collective
it waits for other ranks with one (futex(2), proc(5)).
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import GroupConnections, Record, Source, replace
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.sockets import Sockets
from whyhang.collectors.live.syscalls import SystemCall

MOST = 64
"""Groups of one process that are looked at."""
TRIES = 5
"""Readings of a thread that wakes up every few milliseconds, until it is seen asleep."""
_DEVICE, _RUNNER = "gloo_tcp_loop", "pt_gloo_runloop"
_REGISTERED = re.compile(rb"^tfd:\s*(\d+)", re.MULTILINE)
_LIMIT = 3
"""The argument of futex(2) that says where its limit stands."""


class _Device(Record):
    """The epoll descriptor of a group's device, and whether one of its threads is in a call."""

    epoll: int
    in_call: bool = False


def collect(site: Site, collected: Collected) -> None:
    """Read them of all ranks."""
    sockets = site.snapshots[0].sockets
    for rank in site.job.ranks:
        collected.facts += connections(site.host, rank, site.hostname, sockets)


def connections(
    host: Host, rank: JobProcess, hostname: str, sockets: Sockets
) -> Iterator[GroupConnections]:
    """Yield those of one rank, by group in the order in which it made the groups."""
    devices = _devices(host, rank.pid)
    files = host.proc.open_files(rank.pid) if devices else {}
    for device in devices:
        registered = host.proc.bytes_of(f"{rank.pid}/fdinfo/{device.epoll}") or b""
        links = (files.get(int(number), "") for number in _REGISTERED.findall(registered))
        inodes = (link[8:-1] for link in links if link.startswith("socket:["))
        ends = [pair for inode in inodes if (pair := sockets.ends(rank.pid, inode)) is not None]
        if ends:
            yield GroupConnections(
                ends=tuple(sorted(ends)),
                in_call=device.in_call,
                who=rank.who(hostname),
                source=Source(file="group_connections.json"),
            )


def _devices(host: Host, pid: int) -> list[_Device]:
    """List the devices of a process in the order in which it made them, that of its threads."""
    devices: list[_Device] = []
    for tid in sorted(host.proc.thread_ids(pid)):
        stat = host.proc.stat(pid, tid)
        name = stat.comm if stat is not None else ""
        if name == _DEVICE:
            if len(devices) == MOST:
                break  # the threads behind it are of that group
            calls = (host.system_call(pid, tid) for _ in range(TRIES))
            asleep = (call.arguments[0] for call in calls if call.name.startswith("epoll"))
            devices.append(_Device(epoll=next(asleep, -1)))
        elif name == _RUNNER and devices and _waits_for_ranks(host.system_call(pid, tid)):
            devices[-1] = replace(devices[-1], in_call=True)
    return devices


def _waits_for_ranks(call: SystemCall) -> bool:
    """Return whether a wait has a limit.

    One that a pause has cut short goes on as restart_syscall(2), with the same arguments.
    """
    return call.name in {"futex", ""} and bool(call.arguments[_LIMIT])


PROBE = Probe(name="the connections of process groups", limit=2.0, collect=collect)

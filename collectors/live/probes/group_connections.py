"""The connections of each rank by process group, as gloo makes them, and when they were last used.

gloo's TCP transport has an epoll instance for each device that it makes, and torch makes one for
each process group: /proc/PID/fdinfo lists what is registered there (proc(5)).
"""

import re
from collections.abc import Iterator, Mapping

from whyhang.analyzer.facts import GroupConnections, Source
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.sock_diag import LastData, last_data
from whyhang.collectors.live.sockets import Sockets

MOST = 64
"""Epoll instances of one process that are looked at."""
_EPOLL = "anon_inode:[eventpoll]"
_REGISTERED = re.compile(rb"^tfd:\s*(\d+)", re.MULTILINE)


def collect(site: Site, collected: Collected) -> None:
    """Read them of all ranks; when they were used only in the network that whyhang is in."""
    proc = site.host.proc
    sockets = site.snapshots[0].sockets
    try:
        times = last_data()
    except OSError:
        times = {}
    for rank in site.job.ranks:
        own = {} if proc.foreign(rank.pid, "net") else times
        collected.facts += _connections(proc, rank, site.hostname, sockets, own)


def _connections(
    proc: Proc,
    rank: JobProcess,
    hostname: str,
    sockets: Sockets,
    times: Mapping[str, LastData],
) -> Iterator[GroupConnections]:
    files = proc.open_files(rank.pid)
    instances = [number for number, link in files.items() if link == _EPOLL]
    for number in instances[:MOST]:
        listed = _REGISTERED.findall(proc.bytes_of(f"{rank.pid}/fdinfo/{number}") or b"")
        links = (files.get(int(registered), "") for registered in listed)
        inodes = [link[8:-1] for link in links if link.startswith("socket:[")]
        ends = {inode: sockets.ends(rank.pid, inode) for inode in inodes}
        known = [times[inode] for inode in inodes if inode in times and ends[inode]]
        if both := tuple(sorted(pair for pair in ends.values() if pair is not None)):
            yield GroupConnections(
                ends=both,
                sent=min((sent for sent, _ in known), default=None),
                received=min((received for _, received in known), default=None),
                who=rank.who(hostname),
                source=Source(file="group_connections.json"),
            )


PROBE = Probe(name="the connections of process groups", limit=2.0, collect=collect)

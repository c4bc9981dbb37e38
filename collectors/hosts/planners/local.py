"""From a process of this host to all hosts of its job."""

import contextlib
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable

from whyhang.collectors.hosts import host_gaps
from whyhang.collectors.hosts.planners import mpi, ssh, torchrun
from whyhang.collectors.hosts.reach import KnownHosts, Reach, ReachedHost, Selector, selector_of
from whyhang.collectors.live.job.host import Host as LiveHost
from whyhang.collectors.live.job.members import HostJob
from whyhang.collectors.live.sockets import own_addresses

CONNECT = 3
"""Seconds that ssh tries to connect, where nobody asked for other hosts by name."""

PATIENCE = 4.0
NAMING = 1.0
"""Seconds for the names of all addresses together."""


def known(host: LiveHost, job: HostJob) -> KnownHosts | None:
    """Return what is known here of the other hosts of a job; None where it has no others."""
    return mpi.known(host, job) or torchrun.known(host, job)


def reach(host: LiveHost, job: HostJob) -> Reach | None:
    """Return how to reach all hosts of a job of this one; None where it runs here alone."""
    there = known(host, job)
    if there is None:
        return None
    here = os.uname().nodename
    others = others_of(host, there)
    hosts = tuple(ssh.host(name, connect=CONNECT) for name in others)
    pids = tuple(member.pid for member in (*job.ranks, *job.members)[:1])
    seed = (job.ranks or job.members)[0].pid
    named = f"{', '.join(others[:4])}{', …' if len(others) > 4 else ''}"
    sentence = f"this host and, by ssh, {named}: {there.sentence}"
    return Reach(
        kind="ssh" if others else "local",
        sentence=sentence if others else f"this host: {there.sentence}",
        hosts=(ReachedHost(name=here, pids=pids), *hosts) if hosts else (),
        selector=selector_of(host, seed) if job.ranks else Selector(words=there.words),
        gaps=() if others else (host_gaps.not_all_known(1, there.count or 2),),
        patience=PATIENCE,
        count=there.count,
        grows=True,
    )


def others_of(host: LiveHost, there: KnownHosts) -> list[str]:
    """Return names that ssh knows for what was found, without this host's own."""
    node = os.uname().nodename
    own = own_addresses(host.proc, there.pid)
    own |= {"localhost", node, node.partition(".")[0]}
    others = [name for name in there.names if name not in own and not name.startswith("127.")]
    addresses = _resolved(others, socket.gethostbyname)
    others = [name for name in others if addresses.get(name) not in own]
    names = _resolved(filter(_is_address, others), _name_of)
    return [name for name in dict.fromkeys(names.get(n) or n for n in others) if ssh.is_name(name)]


def _name_of(address: str) -> str:
    """Return the name of an address, where it leads back to it."""
    name = socket.gethostbyaddr(address)[0]
    back = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    return name if address in back else ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _resolved(names: Iterable[str], how: Callable[[str], str]) -> dict[str, str]:
    """Ask for all beside each other; a name server that does not answer costs a second."""
    answers: dict[str, str] = {}

    def ask(name: str) -> None:
        with contextlib.suppress(OSError):
            answers[name] = how(name)

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    until = time.monotonic() + NAMING
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return dict(answers)

"""Who listens on a port, and which addresses a network calls its own, by /proc (proc(5))."""

from __future__ import annotations

import re
from collections.abc import Iterable

from whyhang.analyzer.model_meeting import Listener
from whyhang.analyzer.redact import redact_command
from whyhang.collectors.live.descriptors import Sockets, links_of
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.proc import Proc

_LOCAL4 = re.compile(rb"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL")


def listeners(
    host: Host, sockets: Sockets, view: int, port: int, members: Iterable[int]
) -> tuple[Listener, ...]:
    """List who listens on ``port`` in the network of process ``view``.

    ``members`` are the processes of the job: they are asked first, the others of the host only
    where none of them is it. A listener whose owner this user may not see has no pid.
    """
    inodes = sockets.listening(view, port)
    if not inodes:
        return ()
    ours = set(members)
    found = _owners(host, set(inodes), ours)
    missing = set(inodes) - found.keys()
    if missing:
        space = host.proc.namespace(view, "net")
        others = (p for p in host.stats if p not in ours and host.proc.namespace(p, "net") == space)
        found |= _owners(host, missing, others)
    owners = [(address, found.get(inode)) for inode, address in inodes.items()]
    return tuple(_listener(host, address, owner, view, owner in ours) for address, owner in owners)


def _owners(host: Host, inodes: set[str], pids: Iterable[int]) -> dict[str, int]:
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[str, int] = {}
    for pid in pids:
        for link in links_of(host.proc, pid).values():
            if link in wanted:
                found.setdefault(wanted[link], pid)
        if len(found) == len(wanted):
            break
    return found


def _listener(
    host: Host,
    address: str,
    owner: int | None,
    view: int,
    ours: bool,  # noqa: FBT001
) -> Listener:
    if owner is None:
        return Listener(address=address)
    stat = host.stats.get(owner)
    if stat is None:
        return Listener(address=address, pid=owner, ours=ours)
    place = host.place(owner)
    return Listener(
        address=address,
        pid=owner,
        command=redact_command(host.arguments(owner)) or f"[{stat.comm}]",
        started_at=host.proc.started_at(stat),
        rank=place.rank if place is not None else None,
        ours=ours,
        same_script=host.is_python(owner) and host.script(owner) == host.script(view),
    )


def own_addresses(proc: Proc, pid: int) -> frozenset[str]:
    """Give the addresses of the network that a process lives in; empty where not told."""
    import ipaddress  # noqa: PLC0415 - a live look must not wait for it

    table = proc.bytes_of(f"{pid}/net/fib_trie") or b""
    found = {match.decode() for match in _LOCAL4.findall(table)}
    for line in (proc.bytes_of(f"{pid}/net/if_inet6") or b"").splitlines():
        found.add(str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0].decode()))))
    return frozenset(found)


def is_own(own: frozenset[str], address: str) -> bool | None:
    """Tell whether an address is one of these; None where they are not known."""
    if not own:
        return None
    return address in own or address.startswith("127.") or address == "::1"

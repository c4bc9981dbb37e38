"""Sockets and pipes by /proc (proc(5)): who is at their ends, who listens, a network's addresses.

The tables /proc/PID/net/tcp and its neighbours belong to a network namespace and are read once
for each.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from collections.abc import Collection, Iterable
from typing import TypeAlias

from whyhang.analyzer.facts import Listener, OtherEnd, replace
from whyhang.analyzer.redact import redact_command
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.proc import Proc

_LOCAL4 = re.compile(rb"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL")
_Table: TypeAlias = "dict[bytes, tuple[str, list[bytes]]]"

_STATES = (  # include/net/tcp_states.h
    *("", "established", "syn-sent", "syn-received", "fin-wait-1", "fin-wait-2", "time-wait"),
    *("closed", "close-wait", "last-ack", "listen", "closing"),
)
_ESTABLISHED = b"01"
_LISTEN = b"0A"
_SENDS_AGAIN = "01:"
"""Begins the column of the timer where a packet waits for its acknowledgement."""
WORTH_SAYING = 2
"""Times that a packet was sent again; one is lost now and then on any network."""
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address among those of IPv6

MOST_POLLED = 8
_POLLED = struct.Struct("ihh")
"""A descriptor among those of poll(2), with what is awaited there."""
_POLLS = ("do_sys_poll", "do_poll", "poll_schedule")
"""Kernel functions of a poll."""
_ACCESS = 3
"""The bits of an open file's flags that say whether it is read, written or both."""


class Sockets:
    """Names sockets by their inode number; one for a whole look at a host.

    The kernel takes milliseconds to print the tables, however little stands in them.
    """

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._spaces: dict[int, str | None] = {}
        self._tables: dict[str | None, _Table] = {}

    def name(self, pid: int, inode: str) -> str:
        """Name the socket of a process: ``tcp 10.0.0.1:29500 -> 10.0.0.2:41000 established``."""
        kind, field = self._table(pid).get(inode.encode(), ("", []))
        if kind == "unix":
            path = field[7].decode(errors="replace") if len(field) > 7 else "socket"
            return f"unix {path}"
        return socket_line(kind, *(f.decode() for f in field[1:7])) if kind else "socket"

    def other_end(self, pid: int, inode: str) -> str | None:
        """Return the inode of the other socket of a TCP connection within the network."""
        ends = self.ends(pid, inode)
        if ends is None:
            return None
        here, there = ends
        for other, (its, field) in self._table(pid).items():
            if its == "tcp" and [_address(f.decode()) for f in field[1:3]] == [there, here]:
                return other.decode()
        return None

    def ends(self, pid: int, inode: str) -> tuple[str, str] | None:
        """Return the own address of a TCP connection and the other one; None if it is none."""
        kind, field = self._table(pid).get(inode.encode(), ("", []))
        if kind != "tcp" or field[3] == _LISTEN:
            return None
        here, there = (_address(part.decode()) for part in field[1:3])
        return here, there

    def listening(self, pid: int, port: int) -> dict[str, str]:
        """Return the address of each socket that listens on a TCP port, by its inode.

        They are those of the network that the process lives in.
        """
        ending = b":%04X" % port
        return {
            inode.decode(): _address(field[1].decode())
            for inode, (kind, field) in self._table(pid).items()
            if kind == "tcp" and field[3] == _LISTEN and field[1].endswith(ending)
        }

    def _table(self, pid: int) -> _Table:
        if pid not in self._spaces:
            self._spaces[pid] = self._proc.namespace(pid, "net")
        space = self._spaces[pid]
        if space not in self._tables:
            table = self._read(pid)
            if table is None:  # it has just ended; another one may tell
                return {}
            self._tables[space] = table
        return self._tables[space]

    def _read(self, pid: int) -> _Table | None:
        """Split the tables into fields by inode; most lines are of other processes."""
        table: _Table = {}
        for kind, column in (("tcp", 9), ("tcp6", 9), ("udp", 9), ("udp6", 9), ("unix", 6)):
            data = self._proc.bytes_of(f"{pid}/net/{kind}")
            if data is None and kind == "tcp":
                return None
            for line in (data or b"").splitlines()[1:]:
                field = line.split()
                if len(field) > column:
                    table[field[column]] = (kind.rstrip("6"), field)
        return table


def socket_line(
    kind: str,
    local: str,
    remote: str,
    state: str,
    queues: str = "",
    timer: str = "",
    tries: str = "",
) -> str:
    """Put one line of the kernel's socket table into words.

    Of TCP they tell what gets no answer: how often a packet was sent again and how many bytes wait
    for it, or how many connections nobody has accepted (net/ipv4/tcp_ipv4.c of Linux).
    """
    here, there = _address(local), _address(remote)
    number = int(state, 16) if kind == "tcp" else 0
    word = _STATES[number] if number < len(_STATES) else ""
    sent, _, received = queues.partition(":")
    if word == "listen" or there.endswith(":0"):
        waiting = int(received or "0", 16) if word == "listen" else 0
        return f"{kind} {here} {word}".rstrip() + (f", {waiting} not accepted" if waiting else "")
    line = f"{kind} {here} -> {there} {word}".rstrip()
    again = int(tries or "0", 16) if word and timer.startswith(_SENDS_AGAIN) else 0
    if again < WORTH_SAYING:
        return line
    unanswered = int(sent or "0", 16) if word != "syn-sent" else 0
    return f"{line}, {f'{unanswered} bytes ' * bool(unanswered)}sent again {again} times"


def _address(text: str) -> str:
    """Read ``0100007F:7345``: the address in words of four bytes in host order, then the port."""
    address, _, port = text.partition(":")
    number = int(port, 16)
    if len(address) == 8 or address.startswith(_MAPPED):
        last = bytes.fromhex(address[-8:])
        return f"{last[3]}.{last[2]}.{last[1]}.{last[0]}:{number}"
    words = bytes.fromhex(address)
    packed = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
    return f"[{ipaddress.IPv6Address(packed)}]:{number}"


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
    found = owners(host, inodes, ours)
    if missing := inodes.keys() - found.keys():
        space = host.proc.namespace(view, "net")
        others = (p for p in host.stats if p not in ours and host.proc.namespace(p, "net") == space)
        found |= owners(host, missing, others)
    return tuple(
        _listener(host, address, next(iter(found.get(inode, ())), None), ours, view)
        for inode, address in inodes.items()
    )


def _listener(
    host: Host, address: str, owner: int | None, ours: Collection[int], view: int
) -> Listener:
    if owner is None:
        return Listener(address=address)
    listener = Listener(address=address, pid=owner, ours=owner in ours)
    if owner not in host.stats:
        return listener
    place = host.place(owner)
    return replace(
        listener,
        command=redact_command(host.arguments(owner)) or f"[{host.stats[owner].comm}]",
        started_at=host.proc.started_at(host.stats[owner]),
        rank=place.rank if place is not None else None,
        same_script=host.is_python(owner) and host.script(owner) == host.script(view),
    )


def owners(host: Host, inodes: Iterable[str], pids: Iterable[int]) -> dict[str, list[int]]:
    """Return which of these processes have each of these sockets open."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[str, list[int]] = {}
    for pid in pids:
        for link in wanted.keys() & set(host.proc.open_files(pid).values()):
            found.setdefault(wanted[link], []).append(pid)
    return found


def other_end(host: Host, pid: int, sockets: Sockets) -> OtherEnd | None:
    """Return the process at the other end of what the main thread of ``pid`` waits at.

    None where none is seen, or several have it.
    """
    pids = {p for number in _awaited(host, pid) for p in _at_the_end(host, pid, number, sockets)}
    if len(pids) != 1:
        return None
    owner = pids.pop()
    return OtherEnd(pid=owner, command=redact_command(host.arguments(owner)))


def awaited_connection(host: Host, pid: int, sockets: Sockets) -> str | None:
    """Return the TCP connection at which the main thread of ``pid`` waits, if it is but one."""
    links = (host.proc.link_of(f"{pid}/fd/{number}") or "" for number in _awaited(host, pid))
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    lines = {sockets.name(pid, inode) for inode in inodes}
    line = lines.pop() if len(lines) == 1 else ""
    return line if line.startswith("tcp ") and " -> " in line else None


def _awaited(host: Host, pid: int) -> list[int]:
    """List the descriptors on which the system call of the main thread waits.

    A poll that was interrupted, as by a dump of stacks, goes on under another number.
    """
    call = host.system_call(pid)
    if call.descriptor is not None:
        return [call.descriptor]
    if call.name not in {"poll", "ppoll"} and not (host.proc.wchan(pid) or "").lstrip(
        "_"
    ).startswith(_POLLS):
        return []
    address, count, *_ = call.arguments
    if count > MOST_POLLED:
        return []
    size = _POLLED.size * count
    memory = host.files.read(f"{host.proc.root}/{pid}/mem", start=address, most=size).data
    return [fd for fd, _, _ in _POLLED.iter_unpack(memory)] if len(memory) == size else []


def _at_the_end(host: Host, pid: int, number: int, sockets: Sockets) -> Collection[int]:
    link = host.proc.link_of(f"{pid}/fd/{number}") or ""
    if link.startswith("socket:["):
        inode = sockets.other_end(pid, link[8:-1])
        return owners(host, [inode], host.stats).get(inode, ()) if inode is not None else ()
    named = link.startswith("/") and is_pipe(host.proc.wchan(pid))
    if not named and not link.startswith("pipe:["):
        return ()
    mode = _mode(host, pid, number)
    return {
        other
        for other in host.stats
        for n, its in host.proc.open_files(other).items()
        if other != pid and its == link and _mode(host, other, n) != mode
    }


def is_pipe(wchan: str | None) -> bool:
    """Return whether a kernel function is of a pipe, be it one with a name (fs/pipe.c of Linux)."""
    return "pipe_" in (wchan or "")


def _mode(host: Host, pid: int, number: int) -> int:
    return int(host.proc.file_info(pid, number).get(b"flags", b"0"), 8) & _ACCESS


def own_addresses(proc: Proc, pid: int) -> frozenset[str]:
    """Return the addresses of the network that a process lives in; empty where not told."""
    table = proc.bytes_of(f"{pid}/net/fib_trie") or b""
    addresses = {match.decode() for match in _LOCAL4.findall(table)}
    for line in (proc.bytes_of(f"{pid}/net/if_inet6") or b"").splitlines():
        addresses.add(str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0].decode()))))
    return frozenset(addresses)


def is_own(own: frozenset[str], address: str) -> bool | None:
    """Return whether an address is one of these; None where they are not known."""
    if not own:
        return None
    return address in own or address.startswith("127.") or address == "::1"


def connected(proc: Proc, pid: int, ports: frozenset[int]) -> list[str]:
    """Return the addresses of other hosts that are connected to or from one of these TCP ports.

    They are those of the network that a process lives in, in the order of the kernel's table.
    """
    own = own_addresses(proc, pid)
    addresses: dict[str, None] = {}
    for kind in ("tcp", "tcp6"):
        for line in (proc.bytes_of(f"{pid}/net/{kind}") or b"").splitlines()[1:]:
            field = line.split()
            if len(field) < 4 or field[3] != _ESTABLISHED:
                continue
            here, there = (_address(part.decode()) for part in field[1:3])
            if {int(here.rpartition(":")[2]), int(there.rpartition(":")[2])} & ports:
                addresses[there.rpartition(":")[0].strip("[]")] = None
    return [address for address in addresses if is_own(own, address) is False]

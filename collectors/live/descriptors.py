"""What the open files of a process point at, folded into a few lines.

Sockets are named by their ends, as /proc/PID/net/tcp and its neighbours tell (proc(5)); that
table belongs to a network namespace and is read once for each.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from whyhang.analyzer.redact import redact
from whyhang.collectors.live.proc import Proc

MAX_DESCRIPTORS = 4096
"""Open files looked at in one process."""

MAX_LINES = 64
"""Lines kept; sockets and devices go before files."""

_LIBRARY_PARTS = ("/site-packages/", "/dist-packages/", "/lib/python", "/usr/lib/", "/usr/share/")

_Table: TypeAlias = "dict[bytes, tuple[str, list[bytes]]]"

_LISTEN = b"0A"

# include/net/tcp_states.h
_TCP_STATES = {
    "01": "established",
    "02": "syn-sent",
    "03": "syn-received",
    "04": "fin-wait-1",
    "05": "fin-wait-2",
    "06": "time-wait",
    "07": "closed",
    "08": "close-wait",
    "09": "last-ack",
    "0A": "listen",
    "0B": "closing",
}
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address among those of IPv6


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
        return socket_line(kind, *(f.decode() for f in field[1:4])) if kind else "socket"

    def listening(self, pid: int, port: int) -> dict[str, str]:
        """Give the address of each socket that listens on a TCP port, by its inode.

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


def socket_line(kind: str, local: str, remote: str, state: str) -> str:
    """Put one line of the kernel's socket table into words."""
    here, there = _address(local), _address(remote)
    word = _TCP_STATES.get(state.upper(), "") if kind == "tcp" else ""
    if word == "listen" or there.endswith(":0"):
        return f"{kind} {here} {word}".rstrip()
    return f"{kind} {here} -> {there} {word}".rstrip()


def _address(text: str) -> str:
    """Read ``0100007F:7345``: the address in words of four bytes in host order, then the port."""
    address, _, port = text.partition(":")
    number = int(port, 16)
    if len(address) == 8 or address.startswith(_MAPPED):
        last = bytes.fromhex(address[-8:])
        return f"{last[3]}.{last[2]}.{last[1]}.{last[0]}:{number}"
    import ipaddress  # noqa: PLC0415 - a live look must not wait for it

    words = bytes.fromhex(address)
    packed = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
    return f"[{ipaddress.IPv6Address(packed)}]:{number}"


def links_of(proc: Proc, pid: int) -> dict[int, str]:
    """Give what each open file of a process points at; empty where that may not be seen."""
    try:
        names = os.listdir(f"{proc.root}/{pid}/fd")  # noqa: PTH208 - there may be thousands
    except OSError:
        return {}
    numbers = sorted(int(name) for name in names)[:MAX_DESCRIPTORS]
    links = ((number, proc.link_of(f"{pid}/fd/{number}")) for number in numbers)
    return {number: link for number, link in links if link is not None}


MAX_POSITIONS = 64
"""Files of one process whose position is read."""

_STANDARD = 2  # the last of standard input, output and error


def positions(proc: Proc, pid: int) -> dict[str, int]:
    """Read how far a process is in each regular file that it has open (proc(5), fdinfo).

    The furthest counts where a file is open several times. What it prints is left out.
    """
    found: dict[str, int] = {}
    files = [
        (number, link)
        for number, link in links_of(proc, pid).items()
        if number > _STANDARD and link.startswith("/") and name_of(link, pid, None) == link
    ]
    for number, link in files[:MAX_POSITIONS]:
        if link.startswith("/dev/"):
            continue
        first = (proc.bytes_of(f"{pid}/fdinfo/{number}") or b"").split(b"\n", 1)[0]
        if first.startswith(b"pos:") and first[4:].strip().isdigit():
            name = redact(link)
            found[name] = max(found.get(name, 0), int(first[4:]))
    return found


def name_of(link: str, pid: int, sockets: Sockets | None) -> str | None:
    """Say what a descriptor points at, or None for what tells nothing (libraries, /dev/null)."""
    if link.startswith("socket:["):
        if sockets is None:
            return "socket"
        return sockets.name(pid, link[8:-1])
    if link.startswith("pipe:["):
        return "pipe"
    if link.startswith("anon_inode:"):
        return link[11:].strip("[]")
    if link.startswith(("/dev/shm/", "/memfd:")):  # noqa: S108 - compared, not written
        return "shared memory"
    if link == "/dev/null" or any(part in link for part in _LIBRARY_PARTS):
        return None
    return link


def fold(names: Iterable[str]) -> tuple[str, ...]:
    """Count equal names and put the telling ones first: sockets, devices, files, the rest."""
    counts = Counter(names)
    lines = [
        name if count == 1 else f"{name} x{count}"
        for name, count in sorted(counts.items(), key=lambda item: (_order(item[0]), item[0]))
    ]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"and {len(lines) - MAX_LINES + 1} more"]
    return tuple(lines)


def _order(name: str) -> int:
    if name.startswith(("tcp ", "udp ")):
        return 0
    if name.startswith("/dev/"):
        return 1
    return 2 if name.startswith("/") else 3


def descriptors(proc: Proc, pid: int, sockets: Sockets) -> tuple[str, ...]:
    """Sum up the open files of a process."""
    named = (name_of(link, pid, sockets) for link in links_of(proc, pid).values())
    return fold(name for name in named if name is not None)

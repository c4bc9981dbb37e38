"""The TCP sockets of a process, out of the lines that its record has of its open files."""

import ipaddress
import re

from whyhang.analyzer.facts import Address, Process, Record

_TCP = re.compile(
    r"tcp (?P<host>\S+):(?P<port>\d+)(?: -> (?P<peer>\S+):(?P<peer_port>\d+))?"
    r"(?: (?P<state>[a-z][\w-]+))?(?:, (?P<unaccepted>\d+) not accepted)?"
    r"(?:, (?:\d+ bytes )?sent again (?P<again>\d+) times)?(?: x(?P<count>\d+))?"
)


class Socket(Record):
    """So many TCP sockets alike. ``peer`` is their other end, ``state`` the kernel's word.

    ``again`` is how often a packet was sent since anything was acknowledged, ``unaccepted`` how
    many connections wait for the one who listens to take them.
    """

    own: Address
    peer: Address | None = None
    state: str = ""
    count: int = 1
    again: int = 0
    unaccepted: int = 0
    quote: str = ""

    def __str__(self) -> str:
        return self.quote


def tcp_sockets(process: Process) -> tuple[Socket, ...]:
    """Return the TCP sockets of a process, in the order of its record."""
    return tuple(filter(None, map(tcp_socket, process.descriptors)))


def tcp_socket(line: str) -> Socket | None:
    """Read one line of open files; None where it is no TCP socket."""
    match = _TCP.fullmatch(line) if line.startswith("tcp ") else None
    if match is None:
        return None
    return Socket(
        own=_address(match["host"], match["port"]),
        peer=_address(match["peer"], match["peer_port"]) if match["peer"] else None,
        state=match["state"] or "",
        count=int(match["count"] or 1),
        again=int(match["again"] or 0),
        unaccepted=int(match["unaccepted"] or 0),
        quote=line,
    )


def _address(host: str, port: str) -> Address:
    return Address(host=host.strip("[]"), port=int(port))


def is_address(name: str) -> bool:
    """Return whether the name of a host is an address already."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

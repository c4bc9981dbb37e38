"""The TCP sockets of a process, out of the lines that its record has of its open files."""

import re

from whyhang.analyzer.facts import Address, Process, Record

_TCP = re.compile(
    r"tcp (?P<host>\S+):(?P<port>\d+)(?: -> (?P<peer>\S+):(?P<peer_port>\d+))?"
    r"(?: (?P<state>[a-z][\w-]+))?(?: x(?P<count>\d+))?"
)


class Socket(Record):
    """So many TCP sockets alike. ``peer`` is their other end, ``state`` the kernel's word."""

    own: Address
    peer: Address | None = None
    state: str = ""
    count: int = 1

    def __str__(self) -> str:
        ends = f"tcp {self.own}" if self.peer is None else f"tcp {self.own} -> {self.peer}"
        return f"{ends} {self.state}".rstrip() + (f" x{self.count}" if self.count > 1 else "")


def tcp_sockets(process: Process) -> tuple[Socket, ...]:
    """Return the TCP sockets of a process, in the order of its record."""
    return tuple(
        Socket(
            own=_address(match["host"], match["port"]),
            peer=_address(match["peer"], match["peer_port"]) if match["peer"] else None,
            state=match["state"] or "",
            count=int(match["count"] or 1),
        )
        for line in process.descriptors
        if (match := _TCP.fullmatch(line)) is not None
    )


def _address(host: str, port: str) -> Address:
    return Address(host=host.strip("[]"), port=int(port))

"""Whose the other end of a TCP connection of a rank is, and which connections get no answer.

An address is known to be that of a host by the sockets of the processes there, by its interfaces,
and by the name under which whyhang tried to reach it. One that several hosts have (docker0, a
loopback) tells nothing.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable

from whyhang.analyzer.facts import Address, HostAddress, NetworkPort, Process, Record
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.job.sockets import Socket, tcp_sockets

WITHOUT_ANSWER = 3
"""Times that a packet was sent again, which takes longer than a second: no mere loss of one."""


class ConnectionPeer(Record):
    """Whose the other end of a TCP connection is: a member's, or a host's at least, as is known.

    ``unaccepted`` is how many connections wait for the process that listens there.
    """

    address: Address
    member: int | None = None
    host: str | None = None
    unaccepted: int = 0

    @property
    def known(self) -> bool:
        """Whether it is known to belong to the job."""
        return self.member is not None or self.host is not None


class Unanswered(Record):
    """A connection of a member to which nothing has come back; ``made``: it was made before."""

    member: int
    host: str | None
    socket: Socket
    to: ConnectionPeer
    made: bool

    @property
    def ends(self) -> tuple[str, str]:
        """The hosts at both ends; within one, as between its containers, their addresses."""
        here, there = self.host, self.to.host or self.to.address.host
        own, peer = self.socket.own.host or "", self.to.address.host or ""
        return (own, peer) if here in {None, there} else (here or own, there or peer)


class Connections:
    """The TCP sockets of all ranks and launchers of a job, by their ends."""

    def __init__(self, job: Job) -> None:
        self._sockets = {m.id: _sockets_of(m.processes) for m in job.members}
        self._job = job
        self._hosts: dict[str, set[str]] = defaultdict(set)
        self._owners: dict[tuple[str, str], int] = {}  # by both ends
        self._listeners: dict[int, list[tuple[str | None, Socket, int | None]]] = defaultdict(list)
        for member in job.members:
            self._note(member.host, self._sockets[member.id], member.id)
        for launcher in job.launchers:
            host = next((process.who.host for process in launcher.processes), None)
            self._note(host, _sockets_of(launcher.processes), None)
        for port in job.of(NetworkPort):
            for address in port.addresses if port.who.host else ():
                self._hosts[address.partition("/")[0]].add(port.who.host or "")
        for named in job.of(HostAddress):
            if named.who.host:
                self._hosts[named.address].add(named.who.host)

    def _note(self, host: str | None, sockets: Iterable[Socket], member: int | None) -> None:
        for socket in sockets:
            if host and not _is_everywhere(socket.own.host):
                self._hosts[socket.own.host].add(host)
            if socket.state == "listen":
                self._listeners[socket.own.port or 0].append((host, socket, member))
            elif socket.peer is not None and member is not None:
                self._owners[str(socket.own), str(socket.peer)] = member

    def sockets(self, member: int) -> tuple[Socket, ...]:
        """Return the TCP sockets of a member."""
        return self._sockets[member]

    def host_of(self, address: str) -> str | None:
        """Return the host that has an address, if but one is known to."""
        hosts = self._hosts.get(address, set())
        return next(iter(hosts)) if len(hosts) == 1 else None

    def peer(self, member: Member, own: str, address: Address) -> ConnectionPeer:
        """Return whose ``address`` is, to which a connection leads from ``own``, both with port."""
        here = _is_everywhere(address.host)  # the loopback of the own host
        host = member.host if here else self.host_of(address.host)
        owner = self._owners.get((str(address), own))
        if owner is not None and (not here or self._job.members[owner].host == member.host):
            return ConnectionPeer(address=address, member=owner, host=self._job.members[owner].host)
        for place, socket, listener in self._listeners.get(address.port or 0, ()):
            anywhere = _is_everywhere(socket.own.host)
            if place == host is not None and (anywhere or socket.own.host == address.host):
                return ConnectionPeer(
                    address=address, member=listener, host=host, unaccepted=socket.unaccepted
                )
        return ConnectionPeer(address=address, host=host)

    def unanswered(self) -> list[Unanswered]:
        """List the connections of members that get no answer from elsewhere in the job.

        Not those whose other end has not been given up by its own system: nobody takes them
        there, and whoever listens is the one to look at.
        """
        found = []
        for number, sockets in self._sockets.items():
            member = self._job.members[number]
            own_ports = {socket.own.port for socket in sockets if socket.state == "listen"}
            for socket in sockets:
                if socket.peer is None or _is_everywhere(socket.peer.host):
                    continue
                to = self.peer(member, str(socket.own), socket.peer)
                made = socket.state == "established"
                silent = socket.again >= WITHOUT_ANSWER if made else socket.state == "syn-sent"
                # what has come in at a port of its own is from a rank
                ours = to.known or socket.own.port in own_ports
                elsewhere = socket.peer.host != socket.own.host
                if silent and ours and not to.unaccepted and elsewhere:
                    found.append(
                        Unanswered(member=number, host=member.host, socket=socket, to=to, made=made)
                    )
        return found

    def stands_between(self, one: str | None, other: str | None) -> Socket | None:
        """Return a connection between two hosts that nothing is wrong with, if there is one."""
        for number, sockets in self._sockets.items():
            member = self._job.members[number]
            for socket in (s for s in sockets if s.state == "established" and not s.again):
                to = self.peer(member, str(socket.own), socket.peer) if socket.peer else None
                if to is not None and {member.host, to.host} == {one, other}:
                    return socket
        return None


def _sockets_of(processes: tuple[Process, ...]) -> tuple[Socket, ...]:
    return tcp_sockets(processes[-1]) if processes else ()


def _is_everywhere(address: str) -> bool:
    """Return whether an address means the own host to everybody: a loopback, or all addresses."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return ip.is_loopback or ip.is_unspecified

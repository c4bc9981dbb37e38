"""Matchers over the sockets of the ranks: who has reached the store, and who knocks in vain."""

from __future__ import annotations

from collections import Counter

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.sockets import Socket, tcp_sockets
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import evidence_of, location_of, subject_fields


class NotConnected(Record):
    """While the job starts, few ranks have no connection to the store that the others reached.

    The store's port is the one that a rank listens on and other ranks are connected to.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the ranks without a connection."""
        starting = [m for m in case.graph.operations if m.kind is WaitKind.INIT]
        waiting = [n for meeting in starting for n in meeting.members]
        sockets = {n: _sockets(case, n) for n in waiting}
        port = _store_port(list(sockets.values()))
        if port is None:
            return ()
        away = [n for n in waiting if sockets[n] is not None and not _reaches(sockets[n], port)]
        if not away or len(away) >= len(waiting) - len(away):
            return ()
        there = tuple(n for n in waiting if n not in away)
        knocks = sorted(
            {str(s.peer) for n in away for s in sockets[n] or () if s.state == "syn-sent"}
        )
        fields = subject_fields(case, [case.states[n] for n in away], there)
        fields["store"] = f"port {port}"
        fields["knocks"] = f"; it knocks at {', '.join(knocks)}" if knocks else ""
        return (
            Hit(
                members=tuple(away),
                affected=there,
                evidence=(
                    *(_shown(case, n) for n in (*away[:3], *there[:2])),
                    *evidence_of(case, case.states[away[0]])[:1],
                ),
                location=location_of(case, case.states[away[0]]),
                fields=fields,
            ),
        )


def not_connected() -> NotConnected:
    """Ask for ranks that have not reached the store of the others; see ``NotConnected``."""
    return NotConnected()


def _sockets(case: Case, number: int) -> tuple[Socket, ...] | None:
    """Give the sockets of a member as its process record lists them, or None without a record."""
    processes = case.member(number).processes
    return tcp_sockets(processes[-1]) if processes else None


def _store_port(all_sockets: list[tuple[Socket, ...] | None]) -> int | None:
    every = [socket for one in all_sockets for socket in one or ()]
    listened = {socket.own.port for socket in every if socket.state == "listen"}
    reached = Counter(
        socket.peer.port
        for socket in every
        if socket.state == "established" and socket.peer and socket.peer.port in listened
    )
    return reached.most_common(1)[0][0] if reached else None


def _reaches(sockets: tuple[Socket, ...] | None, port: int) -> bool:
    return any(
        (socket.state == "listen" and socket.own.port == port)
        or (socket.state == "established" and socket.peer and socket.peer.port == port)
        for socket in sockets or ()
    )


def _shown(case: Case, number: int) -> Evidence:
    member = case.member(number)
    process = member.processes[-1]
    tcp = [str(socket) for socket in tcp_sockets(process)]
    return Evidence(
        source=process.source.file,
        line=process.source.line,
        rank=member.rank,
        quote=f"pid {member.pid}: {'; '.join(tcp[:4]) if tcp else 'no TCP socket at all'}",
    )

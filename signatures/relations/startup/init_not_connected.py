"""A rank has no connection to the store that the other ranks have reached.

It was given another address or port (in its environment, in its own code, in an old file), a
firewall drops its packets, or its name resolves elsewhere. The others wait for it in
init_process_group, and it waits for a store that does not answer.
"""

from collections import Counter
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.job.sockets import Socket, tcp_sockets
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind
from whyhang.analyzer.report import Evidence


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks without a connection to the store that the others reached.

    The store's port is the one that a rank listens on and other ranks are connected to.
    """
    starting = [m for m in case.graph.operations if m.kind is WaitKind.INIT]
    waiting = [n for meeting in starting for n in meeting.members]
    sockets = {n: _sockets(case, n) for n in waiting}
    port = _store_port(list(sockets.values()))
    if port is None:
        return
    away = [n for n in waiting if sockets[n] is not None and not _reaches(sockets[n], port)]
    if not away or len(away) >= len(waiting) - len(away):
        return
    there = tuple(n for n in waiting if n not in away)
    knocks = sorted({str(s.peer) for n in away for s in sockets[n] or () if s.state == "syn-sent"})
    fields = queries.subject_fields(case, [case.states[n] for n in away], there)
    fields["store"] = f"port {port}"
    fields["knocks"] = f"; it knocks at {', '.join(knocks)}" if knocks else ""
    yield Hit(
        members=tuple(away),
        affected=there,
        evidence=(
            *(_cite_sockets(case, n) for n in (*away[:3], *there[:2])),
            *queries.evidence_of(case, case.states[away[0]])[:1],
        ),
        location=queries.location_of(case, case.states[away[0]]),
        fields=fields,
    )


SIGNATURE = Signature(
    id="init-not-connected",
    category="init-master-unreachable",
    level="peer",
    title="{who} {has} not reached the store ({store}) that the other ranks are connected to",
    when=when,
    means=(
        "The store listens on {store} and {others} are connected to it; {who} {is} not{knocks}. "
        "It tries another address or port, or its packets do not arrive."
    ),
    confidence="strong",
    remedies=(
        "Compare the init_method, MASTER_ADDR and MASTER_PORT that {who} really uses ({where}).",
        "If they agree, check name resolution and firewall from its host to the store's port.",
    ),
    next_steps=("ss -tnp state syn-sent  # on the host of {who}: where does it knock?",),
)


def _sockets(case: Case, number: int) -> tuple[Socket, ...] | None:
    """Return the sockets of a member as its process record lists them, or None without a record."""
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


def _cite_sockets(case: Case, number: int) -> Evidence:
    member = case.member(number)
    process = member.processes[-1]
    tcp = [str(socket) for socket in tcp_sockets(process)]
    words = "; ".join(tcp[:4]) if tcp else "no TCP socket at all"
    return queries.cite(process.source, f"pid {member.pid}: {words}", member.rank)

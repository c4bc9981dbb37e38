"""Ranks that were given another place to meet than others, or do not get there."""

from collections import Counter
from collections.abc import Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Address, replace
from whyhang.analyzer.findings.signature import CLEAR, INDIRECT, Hit
from whyhang.analyzer.job.sockets import Socket, tcp_sockets
from whyhang.analyzer.queries.hits import cite_process, hit_about, places_of
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.queries.startup.store_place import (
    OPEN,
    SAYS,
    StartingRank,
    cite_view,
    starting_ranks,
    state_of_rank_0,
    view_fields,
)
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.title_fields import subject_fields


@side("meeting_place", fault="differs")
def _master_differs(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks that were given another place and do not reach the others' store.

    The place of rank 0 is the right one, because its store is there; without rank 0 the most
    frequent is.
    """
    here = starting_ranks(case)
    usual = _usual_address(case, here)
    if usual is None or case.graph.progress:
        return
    odd = [at for at in here if at.address != usual and not _same_place(at, here, usual)]
    rest = [at for at in here if at.address == usual]
    if not odd:
        return
    view = odd[0].view
    there = f", where {SAYS[view.outcome]}" if view is not None and view.outcome in SAYS else ""
    proven = state_of_rank_0(case) is not None or len(odd) < len(rest)
    hit = hit_about(
        case,
        [at.member for at in odd],
        [at.member for at in rest],
        evidence=(
            *(_cite_given(case, at) for at in (*odd[:3], *rest[:2])),
            *([cite_view(view)] if view is not None else []),
            *places_of(case, odd[0].member),
        ),
        names_culprit=proven,
        strength=CLEAR if proven else INDIRECT,
        fields={"theirs": str(odd[0].address), "usual": str(usual), "there": there},
    )
    yield replace(hit, category="init-file-store") if usual.file else hit


def _usual_address(case: Case, here: Sequence[StartingRank]) -> Address | None:
    """Return the place that rank 0 was given, else that of the most."""
    first = next((at.address for at in here if case.member(at.member).rank == 0), None)
    if first is not None or not here:
        return first
    return Counter(at.address for at in here).most_common(1)[0][0]


def _same_place(one: StartingRank, here: Sequence[StartingRank], usual: Address) -> bool:
    """Return whether another name leads to the same store, as localhost may."""
    other = next((at.view for at in here if at.address == usual and at.view is not None), None)
    if one.view is None or other is None:
        return (one.address.port, one.address.file) == (usual.port, usual.file)
    return one.view.port == other.port and {one.view.outcome, other.outcome} <= OPEN


def _cite_given(case: Case, at: StartingRank) -> Evidence:
    """Return where a rank was given its place: in the call, else in its environment."""
    member = case.member(at.member)
    arguments = (fact for one, fact in case.job.init_arguments() if one is member and fact.address)
    if (given := next(arguments, None)) is None:
        return cite_process(member, f"MASTER_ADDR:MASTER_PORT={at.address}")
    words = f"pid {member.pid}: init_process_group at {at.address}"
    return cite(given.source, words, member.rank)


@side("meeting_place", fault="not-connected")
def _not_connected(case: Case) -> Iterator[Hit]:
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
    quotes = [_cite_sockets(case, n) for n in (*away[:3], *there[:2])]
    knocking = f"; it knocks at {', '.join(knocks)}" if knocks else ""
    yield hit_about(
        case,
        away,
        there,
        evidence=(*quotes, *places_of(case, away[0])),
        fields={"store": f"port {port}", "knocks": knocking},
    )


def _sockets(case: Case, number: int) -> tuple[Socket, ...] | None:
    """Return the sockets of a member as its process record lists them, or None without a record."""
    last = case.member(number).last
    return tcp_sockets(last) if last is not None else None


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
    tcp = [str(socket) for socket in tcp_sockets(member.processes[-1])]
    return cite_process(member, "; ".join(tcp[:4]) if tcp else "no TCP socket at all")


@side("meeting_place", fault="mtu")
def _mtu(case: Case) -> Iterator[Hit]:
    """Yield one hit for all ranks of which that is so; it is the way, not the rank."""
    lost = [v for v in case.job.stores if v.echo_small is True and v.echo_large is False]
    members = sorted({number for view in lost for number in case.job.members_asked(view)})
    if not members or case.graph.progress:
        return
    fields = subject_fields(case, [case.states[number] for number in members], ())
    fields |= {**view_fields(lost[0]), "mtu": str(lost[0].mtu)}
    yield Hit(
        affected=tuple(members),
        evidence=tuple(
            cite(
                view.source,
                f"ping {view.host}, as pid {view.asked_by[0]}: 84 bytes answered, "
                f"{view.mtu} bytes not",
            )
            for view in lost[:3]
        ),
        names_culprit=False,
        fields=fields,
    )

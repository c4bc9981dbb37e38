"""A rank has no connection to the store that the other ranks have reached.

It was given another address or port (in its environment, in its own code, in an old file), a
firewall drops its packets, or its name resolves elsewhere. The others wait for it in
init_process_group, and it waits for a store that does not answer.
"""

import re
from collections import Counter
from collections.abc import Iterator

from whyhang.analyzer.queries import (
    Case,
    Hit,
    Kind,
    Signature,
    WaitKind,
    cite,
    evidence_of,
    location_of,
    subject_fields,
)
from whyhang.analyzer.report import Evidence

_LISTEN = re.compile(r"tcp \S+:(\d+) listen")
_TO = re.compile(r"tcp \S+ -> (\S+):(\d+) (established|syn-sent)")


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks without a connection to the store that the others reached.

    The store's port is the one that a rank listens on and other ranks are connected to.
    """
    starting = [m for m in case.graph.meetings if m.kind is WaitKind.INIT]
    waiting = [n for meeting in starting for n in meeting.members]
    sockets = {n: _sockets(case, n) for n in waiting}
    port = _store_port(list(sockets.values()))
    if port is None:
        return
    away = [n for n in waiting if sockets[n] is not None and not _reaches(sockets[n], port)]
    if not away or len(away) >= len(waiting) - len(away):
        return
    there = tuple(n for n in waiting if n not in away)
    knocks = sorted({f"{a}:{p}" for n in away for a, p in _knocks(sockets[n])})
    fields = subject_fields(case, [case.states[n] for n in away], there)
    fields["store"] = f"port {port}"
    fields["knocks"] = f"; it knocks at {', '.join(knocks)}" if knocks else ""
    yield Hit(
        members=tuple(away),
        affected=there,
        evidence=(
            *(_cite_sockets(case, n) for n in (*away[:3], *there[:2])),
            *evidence_of(case, case.states[away[0]])[:1],
        ),
        location=location_of(case, case.states[away[0]]),
        fields=fields,
    )


SIGNATURE = Signature(
    id="init-not-connected",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
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


def _sockets(case: Case, number: int) -> tuple[str, ...] | None:
    """Return the sockets of a member as its process record lists them, or None without a record."""
    processes = case.member(number).processes
    return processes[-1].descriptors if processes else None


def _store_port(all_sockets: list[tuple[str, ...] | None]) -> str | None:
    listened = {p for one in all_sockets for text in one or () for p in _LISTEN.findall(text)}
    reached = Counter(
        port
        for one in all_sockets
        for text in one or ()
        for _, port, state in _TO.findall(text)
        if state == "established" and port in listened
    )
    return reached.most_common(1)[0][0] if reached else None


def _reaches(sockets: tuple[str, ...] | None, port: str) -> bool:
    return any(
        port in _LISTEN.findall(text)
        or any(p == port and state == "established" for _, p, state in _TO.findall(text))
        for text in sockets or ()
    )


def _knocks(sockets: tuple[str, ...] | None) -> list[tuple[str, str]]:
    sockets_to = [hit for text in sockets or () for hit in _TO.findall(text)]
    return [(address, port) for address, port, state in sockets_to if state == "syn-sent"]


def _cite_sockets(case: Case, number: int) -> Evidence:
    member = case.member(number)
    process = member.processes[-1]
    tcp = [text for text in process.descriptors if text.startswith("tcp ")]
    words = "; ".join(tcp[:4]) if tcp else "no TCP socket at all"
    return cite(process.source, f"pid {member.pid}: {words}", member.rank)

"""What a report says of the place where ranks are to meet, and shows as evidence of it."""

from __future__ import annotations

from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import InitArguments, Listener, StoreView
from whyhang.analyzer.job.sockets import tcp_sockets
from whyhang.analyzer.job.store_keys import clients, joined
from whyhang.analyzer.match.starting import At
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.wording.describe import ranks_in_words

SAYS = {
    "not asked": "the port takes connections",
    "refused": "the connection is refused",
    "unreachable": "no answer comes from there",
    "unresolved": "the name has no address",
    "stranger": "something that is no store answers",
    "closed": "the connection is closed at once",
    "silent": "the connection is taken and nothing is said",
}


def view_fields(view: StoreView | None) -> dict[str, str]:
    """Give what titles say of a place: its address, what it resolves to, how it answered."""
    if view is None:
        return {}
    resolved = ", ".join(view.resolved)
    own = ""
    if view.own_address and view.outcome == "refused":
        own = "; that address belongs to its own host, and nobody listens there"
    return {
        "address": f"{view.host}:{view.port}",
        "host": view.host,
        "port": str(view.port),
        "resolved": resolved or "?",
        "as": f" ({resolved})" if resolved and resolved != view.host else "",
        "why": f" ({view.why})" if view.why else "",
        "own": own,
        "says": SAYS.get(view.outcome, view.outcome),
    }


def _time(seconds: float) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}s"
    return f"{seconds:.0f} s"


def holder_fields(
    case: Case, view: StoreView, holder: Listener, waiting: Sequence[int]
) -> dict[str, str]:
    """Give what titles say of who holds a port, and how much older it is than those who wait."""
    begun = [
        process.started_at
        for number in waiting
        for process in case.member(number).processes[-1:]
        if process.started_at is not None
    ]
    age = ""
    if holder.started_at is not None and begun:
        seconds = min(begun) - holder.started_at
        age = f", started {_time(seconds)} before them" if seconds > 0 else ", started after them"
    rank = f" (its rank {holder.rank})" if holder.rank is not None else ""
    owner = f"process {holder.pid}" if holder.pid is not None else "a process of another user"
    return {
        "holder": owner,
        "holder_pid": str(holder.pid) if holder.pid is not None else "PID",
        "command": f" ({holder.command})" if holder.command else "",
        "age": age,
        "of_rank": rank,
        "port": str(view.port),
    }


def view_evidence(view: StoreView) -> Evidence:
    """Quote what was found at a place, in one line."""
    named = (
        f" = {', '.join(view.resolved)}" if view.resolved and view.resolved != (view.host,) else ""
    )
    said = SAYS.get(view.outcome, view.outcome)
    if view.outcome == "answered":
        counted = clients(view)
        groups = joined(view)
        said = "a store answers" + (f"; {counted} clients counted" if counted is not None else "")
        if groups and groups[0].default:
            said += f"; addresses of {ranks_in_words(groups[0].ranks)} in it"
    why = f" ({view.why})" if view.why else ""
    asked = ", ".join(str(pid) for pid in view.asked_by[:4])
    return Evidence(
        source=view.source.file,
        line=view.source.line,
        rank=None,
        quote=f"{view.host}:{view.port}{named}, asked as pid {asked}: {said}{why}",
    )


def holder_evidence(view: StoreView, holder: Listener) -> Evidence:
    """Quote who listens on a port."""
    owner = f"pid {holder.pid}" if holder.pid is not None else "a process of another user"
    return Evidence(
        source=view.source.file,
        line=view.source.line,
        rank=None,
        quote=f"{holder.address} listen: {owner} {holder.command}".rstrip(),
    )


def knocking(case: Case, away: Sequence[At]) -> list[Evidence]:
    """Quote the sockets of ranks that knock in vain."""
    found = []
    for at in away[:3]:
        member = case.member(at.member)
        for process in member.processes:
            lines = [str(s) for s in tcp_sockets(process) if s.state == "syn-sent"]
            if lines:
                found.append(
                    Evidence(
                        source=process.source.file,
                        line=process.source.line,
                        rank=member.rank,
                        quote=f"pid {member.pid}: {'; '.join(lines[:2])}",
                    )
                )
                break
    return found


def told_to(case: Case, at: At) -> Evidence:
    """Quote where a rank was told its place: in the call, else in its environment."""
    member = case.member(at.member)
    given = next(
        (g for g in case.job.of(InitArguments) if g.address and g.who.pid == member.pid), None
    )
    if given is not None:
        source, quote = given.source, f"init_process_group at {given.address}"
    else:
        source, quote = member.processes[-1].source, f"MASTER_ADDR:MASTER_PORT={at.address}"
    return Evidence(
        source=source.file,
        line=source.line,
        rank=member.rank,
        quote=f"pid {member.pid}: {quote}",
    )

"""The place where ranks meet at start-up: what each was given, and what is there.

What a rank was given is read from the call that it is in, else from its environment. What is at
that place was asked from the rank's own network (``StoreView``).
"""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Address, Record, StoreView, counted, ranks_in_words, whole
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, Hit
from whyhang.analyzer.job.sockets import is_address, tcp_sockets
from whyhang.analyzer.job.store_keys import clients, joined
from whyhang.analyzer.queries.hits import hit_about, places_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.stacks import WaitKind

OPEN = {"answered", "not asked"}
"""Outcomes of places that a rank can reach."""

SAYS = {
    "not asked": "the port takes connections",
    "refused": "the connection is refused",
    "unreachable": "nothing answers",
    "unresolved": "the name has no address",
    "stranger": "something that is no store answers",
    "closed": "the connection is closed at once",
    "silent": "the connection is taken and nothing is said",
}
"""The outcomes of asking at a place, in the words of a report."""


class StartingRank(Record):
    """One rank that starts, and the place that it was given."""

    member: int
    address: Address
    view: StoreView | None

    @property
    def outcome(self) -> str:
        """Return what asking there brought; empty where nobody asked."""
        return self.view.outcome if self.view is not None else ""


def starting_ranks(case: Case) -> list[StartingRank]:
    """List the ranks inside init_process_group, with the place that each was given."""
    inside = {n for m in case.graph.operations if m.kind is WaitKind.INIT for n in m.members}
    given = {m.id: fact.address for m, fact in case.job.init_arguments() if fact.address}
    views = {n: view for view in case.job.stores for n in case.job.members_asked(view)}
    starting = []
    for number in sorted(inside):
        member = case.member(number)
        address, environ = given.get(number), member.environ
        port = whole(environ.get("MASTER_PORT"))
        if address is None and "MASTER_ADDR" in environ and port is not None:
            address = Address(host=environ["MASTER_ADDR"], port=port)
        if address is not None:
            starting.append(StartingRank(member=number, address=address, view=views.get(number)))
    return starting


def state_of_rank_0(case: Case) -> RankState | None:
    """Return where rank 0 stands, if it is inside its own start-up: its store is up, or failed."""
    number = case.job.by_rank.get(0)
    if number is None:
        return None
    inside = any(m.kind is WaitKind.INIT and number in m.members for m in case.graph.operations)
    return case.states[number] if inside else None


def distinct_views(places: Iterable[StartingRank]) -> list[StoreView]:
    """List what was seen at the places of ranks, each once."""
    views = [at.view for at in places if at.view is not None]
    return [view for number, view in enumerate(views) if view not in views[:number]]


def view_fields(view: StoreView | None) -> dict[str, str]:
    """Return what titles say of a place: its address, what it resolves to, how it answered."""
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


def cite_view(view: StoreView) -> Evidence:
    """Return what was seen at a place, in one line."""
    named = (
        f" = {', '.join(view.resolved)}" if view.resolved and view.resolved != (view.host,) else ""
    )
    says = SAYS.get(view.outcome, view.outcome)
    if view.outcome == "answered":
        came = clients(view)
        groups = joined(view)
        says = "a store answers" + (
            f"; {counted(came, 'client')} counted" if came is not None else ""
        )
        if groups and groups[0].default:
            says += f"; addresses of {ranks_in_words(groups[0].ranks)} in it"
    why = f" ({view.why})" if view.why else ""
    asked = ", ".join(str(pid) for pid in view.asked_by[:4])
    return cite(view.source, f"{view.host}:{view.port}{named}, asked as pid {asked}: {says}{why}")


@query
def cut_off(case: Case, *outcomes: str) -> Iterator[Hit]:
    """Yield one hit for ranks that start and do not reach the store at the place they were given.

    ``outcomes`` are those of ``StoreView`` that count. Where others do reach theirs, those that
    do not are blamed; else nobody is. A store that is not there yet because its rank is lagging is
    no such case.
    """
    here = starting_ranks(case)
    away = [at for at in here if at.outcome in outcomes]
    there = [at for at in here if at.outcome in OPEN]
    if not away or case.graph.progress or (not there and _rank_0_is_lagging(case)):
        return
    views = distinct_views(away)
    elsewhere = {view.host for view in distinct_views(there)}
    few = len(away) < len(here) - len(away) or len(views) == 1
    strength = CLEAR if there or state_of_rank_0(case) is not None else INCOMPLETE
    fields = view_fields(views[0])
    fields["elsewhere"] = (
        f"; {case.names(at.member for at in there)} reach{'es' if len(there) == 1 else ''} "
        f"a store at {', '.join(sorted(elsewhere))}"
        if there
        else ""
    )
    yield hit_about(
        case,
        [at.member for at in away],
        [at.member for at in there],
        evidence=(
            *(cite_view(view) for view in views[:3]),
            *_attempts(case, away),
            *(cite_view(view) for view in distinct_views(there)[:1]),
            *places_of(case, away[0].member),
        ),
        strength=strength,
        names_culprit=bool(there) and few,
        fields=fields,
    )


def _rank_0_is_lagging(case: Case) -> bool:
    """Return whether rank 0 lives and has not come to its start-up: then no store can be there."""
    number = case.job.by_rank.get(0)
    if number is None or state_of_rank_0(case) is not None:
        return False
    return case.states[number].status is not Status.GONE


def _attempts(case: Case, away: Sequence[StartingRank]) -> list[Evidence]:
    """Return the sockets of ranks that try to connect in vain, the first look of each."""
    evidence = []
    for member in (case.member(at.member) for at in away[:3]):
        for process in member.processes:
            lines = [str(s) for s in tcp_sockets(process) if s.state == "syn-sent"]
            if lines:
                words = f"pid {member.pid}: {'; '.join(lines[:2])}"
                evidence.append(cite(process.source, words, member.rank))
                break
    return evidence


@query
def resolves_differently(case: Case, *, loopback: bool) -> Iterator[Hit]:
    """Yield one hit for ranks that find something else under the name than those that get through.

    ``loopback``: the address is the loopback of each rank's own host instead, so that every host
    finds itself there.
    """
    here = [at for at in starting_ranks(case) if at.view is not None and at.view.resolved]
    good = [at for at in here if at.outcome in OPEN]
    bad = [at for at in here if at not in good]
    if case.graph.progress or not bad or not (good or loopback):
        return
    usual = {(view.host, view.resolved) for view in distinct_views(good)}
    names = {name for name, _ in usual if not is_address(name)}
    if loopback:
        inward = (at for at in bad if at.view and all(map(is_loopback, at.view.resolved)))
        bad = [at for at in inward if _on_other_host(case, at, good)]
    else:
        seen = ((at, at.view) for at in bad if at.view is not None and at.view.host in names)
        bad = [at for at, view in seen if (view.host, view.resolved) not in usual]
    if not bad:
        return
    first = bad[0].view
    other = good[0].view if good else None
    usually = ", ".join(other.resolved) if other is not None else "?"
    quotes = [cite_view(view) for view in distinct_views((*bad[:3], *good[:1]))]
    yield hit_about(
        case,
        [at.member for at in bad],
        [at.member for at in good],
        evidence=(*quotes, *places_of(case, bad[0].member)),
        names_culprit=not loopback or len(bad) < len(good),
        fields={**view_fields(first), "usual": usually},
    )


def is_loopback(place: str) -> bool:
    """Return whether an address, or the name "localhost", leads back to whoever asks."""
    try:
        return ipaddress.ip_address(place).is_loopback
    except ValueError:
        return place == "localhost"


def _on_other_host(case: Case, at: StartingRank, good: Sequence[StartingRank]) -> bool:
    """Return whether a rank is on another host than rank 0, by networks or its number."""
    if good:
        networks = {view.network for view in distinct_views(good)}
        return at.view is not None and at.view.network not in networks
    member = case.member(at.member)
    if member.rank is None or member.local_rank is None:
        return False
    return "LOCAL_WORLD_SIZE" in member.environ and member.rank > member.local_rank

"""Ranks that are starting, where each is told to meet, and what is known of that place."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Address, InitArguments, Record, StoreView
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import WaitKind

OPEN = {"answered", "not asked"}
"""Outcomes of places that a rank can reach."""


class At(Record):
    """One rank that starts, and the place that it was told."""

    member: int
    address: Address
    view: StoreView | None


def starting_ranks(case: Case) -> list[At]:
    """List the ranks inside init_process_group, with the place that each was told."""
    inside = {n for m in case.graph.operations if m.kind is WaitKind.INIT for n in m.members}
    told = {fact.who.pid: fact.address for fact in case.job.of(InitArguments) if fact.address}
    views = {pid: view for view in case.job.stores for pid in view.asked_by}
    found = []
    for number in sorted(inside):
        member = case.member(number)
        environ = member.processes[-1].environ if member.processes else {}
        address = told.get(member.pid)
        port = environ.get("MASTER_PORT", "")
        if address is None and "MASTER_ADDR" in environ and port.isdecimal():
            address = Address(host=environ["MASTER_ADDR"], port=int(port))
        view = views.get(member.pid) if member.pid is not None else None
        if address is not None:
            found.append(At(member=number, address=address, view=view))
    return found


def stand_of_owner(case: Case) -> RankState | None:
    """Give where rank 0 stands, if it is inside its own start-up: its store is up, or failed."""
    number = case.job.by_rank.get(0)
    if number is None:
        return None
    inside = any(m.kind is WaitKind.INIT and number in m.members for m in case.graph.operations)
    return case.states[number] if inside else None


def owner_is_late(case: Case) -> bool:
    """Tell whether rank 0 lives and has not come to its start-up: then no store can be there."""
    number = case.job.by_rank.get(0)
    if number is None or stand_of_owner(case) is not None:
        return False
    return case.states[number].status is not Status.GONE


def usual_address(case: Case, here: Sequence[At]) -> Address | None:
    """Give the place that rank 0 was told, else that of the most."""
    first = next((at.address for at in here if case.member(at.member).rank == 0), None)
    if first is not None or not here:
        return first
    return Counter(at.address for at in here).most_common(1)[0][0]


def same_place(one: At, here: Sequence[At], usual: Address) -> bool:
    """Tell whether another name leads to the same store, as localhost on the master's host does."""
    other = next((at.view for at in here if at.address == usual and at.view is not None), None)
    if one.view is None or other is None:
        return (one.address.port, one.address.file) == (usual.port, usual.file)
    return one.view.port == other.port and {one.view.outcome, other.outcome} <= OPEN


def is_inward(at: At) -> bool:
    """Tell whether the place is the loopback of whoever asks."""
    return at.view is not None and all(_loops(address) for address in at.view.resolved)


def _loops(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def is_address(name: str) -> bool:
    """Tell an address from a name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def on_other_host(case: Case, at: At, good: Sequence[At]) -> bool:
    """Tell whether a rank is on another host than rank 0: by their networks, or its own number."""
    if good:
        networks = {other.view.network for other in good if other.view is not None}
        return at.view is not None and at.view.network not in networks
    member = case.member(at.member)
    if member.rank is None or member.local_rank is None or not member.processes:
        return False
    by_launcher = "LOCAL_WORLD_SIZE" in member.processes[-1].environ
    return by_launcher and member.rank > member.local_rank


def stands_of(case: Case, here: Sequence[At]) -> list[RankState]:
    """Give where these ranks stand."""
    return [case.states[at.member] for at in here]


def distinct_views(views: Iterable[StoreView | None]) -> list[StoreView]:
    """Give each place once."""
    found: list[StoreView] = []
    for view in views:
        if view is not None and view not in found:
            found.append(view)
    return found

"""What several matchers ask of where the ranks stand."""

from __future__ import annotations

from collections.abc import Iterable

from whyhang.analyzer.case import Case, Member, Stand, Standing
from whyhang.analyzer.waits import WaitKind

WAITERS = {Standing.WAITING, Standing.MAYBE}
"""Waiting for other ranks, or perhaps."""

OWN = {Standing.BLOCKED, Standing.RUNNING, Standing.MOVING}
"""At something of their own."""


def waiters_for(case: Case) -> tuple[int, ...]:
    """List the members that wait for other ranks; a "maybe" counts once there is a root."""
    return tuple(sorted((*case.picture.waiting, *case.picture.maybe)))


def kinds_of(stand: Stand) -> set[WaitKind]:
    """Give what a member waits for and the larger work it is in."""
    if stand.place is None:
        return set()
    found = {stand.place.kind}
    if stand.place.context is not None:
        found.add(stand.place.context)
    return found


def has_met(member: Member) -> bool:
    """Tell whether a process has been in init_process_group: threads of a backend run in it."""
    return any(
        thread.name.startswith(("pt_gloo", "gloo_tcp", "pt_nccl"))
        for process in member.processes[-1:]
        for thread in process.threads
    )


def all_seen(case: Case) -> bool:
    """Tell whether every member's place is known, so that no root can hide."""
    return all(stand.standing is not Standing.UNSEEN for stand in case.stands)


def all_recorded(case: Case) -> bool:
    """Return whether no stack shows any rank: then the ledger knows more of how they meet."""
    return all(stand.spot is not None for stand in case.stands)


def count(case: Case, members: Iterable[int]) -> int:
    """Count processes: a record may stand for several that are alike."""
    return sum(case.member(number).copies for number in members)

"""What several matchers ask of where the ranks stand."""

from __future__ import annotations

from collections.abc import Iterable

from whyhang.analyzer.case import Case
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import WaitKind

WAITERS = {Status.WAITING, Status.MAYBE}
"""Waiting for other ranks, or perhaps."""

OWN = {Status.BLOCKED, Status.RUNNING, Status.MOVING}
"""At something of their own."""


def waiters_for(case: Case) -> tuple[int, ...]:
    """List the members that wait for other ranks; a "maybe" counts once there is a root."""
    return tuple(sorted((*case.graph.waiting, *case.graph.maybe)))


def kinds_of(state: RankState) -> set[WaitKind]:
    """Give what a member waits for and the larger work it is in."""
    if state.place is None:
        return set()
    found = {state.place.kind}
    if state.place.context is not None:
        found.add(state.place.context)
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
    return all(state.status is not Status.UNSEEN for state in case.states)


def all_recorded(case: Case) -> bool:
    """Return whether no stack shows any rank: then the ledger knows more of how they meet."""
    return all(state.position is not None for state in case.states)


def count(case: Case, members: Iterable[int]) -> int:
    """Count processes: a record may stand for several that are alike."""
    return sum(case.member(number).copies for number in members)

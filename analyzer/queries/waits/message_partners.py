"""Who waits for whom in messages, as records and the arguments in lines of source tell."""

import re
from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives.waits import followed
from whyhang.analyzer.facts import CallArgument
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.named_group import named_group
from whyhang.analyzer.wording.ways_past import divergence

_OF_MESSAGES = re.compile(r"(?i)i?s?send|i?recv|m?probe")
"""Calls of which an argument names the other rank, one for which they wait."""

_PARTNER = {"source", "src", "dest", "dst", "peer"}

_MAY_BE_OF_ALL = re.compile(r"(?i)(?:^|\.)(?:comm|communicator|(?:\w+_)?world)$")
"""Names under which programs keep the communicator of all ranks."""


def partners(case: Case) -> dict[int, int]:
    """Return the member that each one in a send or receive has named, as far as is known."""
    by_rank = case.job.by_rank
    named: dict[int, int] = {}
    for fact in case.job.of(CallArgument):
        if not (fact.stands and fact.name in _PARTNER and _OF_MESSAGES.fullmatch(fact.op)):
            continue
        member = case.job.member_of(fact.who)
        if member is None or not fact.value.isdecimal():
            continue
        other = by_rank.get(int(fact.value))
        if other is not None and _of_job(case, member.id) and _awaits(case, member.id, fact.op):
            named[member.id] = other
    return named | {
        by_rank[rank]: by_rank[position.call.peer]
        for rank, position in case.graph.calls.positions.items()
        if position.inside and rank in by_rank and position.call.peer in by_rank
    }


def _awaits(case: Case, number: int, op: str) -> bool:
    """Return whether a member waits in an operation: of two that it has begun it may be either."""
    its = (case.states[number].op or "").lower()
    ways = [way for way in ("send", "recv") if way in its]
    return len(ways) != 1 or ways[0] in op.lower()


def _of_job(case: Case, number: int) -> bool:
    """Return whether numbers in a call are ranks of the job: in a part of it they are others."""
    place = case.states[number].place
    if place is None or place.kind is not WaitKind.MPI:
        return True  # torch.distributed takes the rank in the whole job
    communicator = named_group(place, case.text)
    return communicator is None or _MAY_BE_OF_ALL.search(communicator) is not None


def ring_of(case: Case, members: Sequence[int]) -> tuple[int, ...]:
    """Return members that wait in a ring, each for the next; empty where none are known to."""
    named = partners(case)
    for first in members:
        path = followed(first, named)
        if named.get(path[-1]) == first and len(path) > 1:
            return tuple(path)
    return ()


def ring_in_words(case: Case, ring: Sequence[int], members: Sequence[int]) -> str:
    """Say who waits for each other, where they come apart, and who waits for one of them."""
    named = partners(case)
    outside = (n for n in members if n not in ring)
    others = [n for n in outside if not {*ring}.isdisjoint(followed(n, named))]
    if len(ring) == 2:
        words = f"{case.names(ring)} for each other"
        where = divergence(case, ring[:1], ring[1:])
        words += f", from {where}" if where else ""
    else:
        words = f"{case.names(ring)} in a ring, each for the next"
    if others:
        behind = "waits" if len(others) == 1 else "wait"
        words += f"; {case.names(others)} {behind} behind them"
    return words

"""The process groups of a job over gloo, by the TCP connections between its ranks.

A connection of a group has one of its ranks at either end; connections to anything else (the
store, a server) have their other end in no group of a rank and count for none.
"""

from collections import defaultdict
from collections.abc import Iterable

from whyhang.analyzer.facts import GroupConnections, Record
from whyhang.analyzer.job.records import Job

TICK = 0.012
"""Seconds within which the kernel does not tell which of two groups was used last: it counts in
ticks of up to 10 ms."""


class ConnectedGroup(Record):
    """A process group, as the process of one rank is connected to its other ``ranks``."""

    ranks: frozenset[int]
    sent: float | None
    received: float | None


def connected_groups(job: Job) -> dict[int, list[ConnectedGroup]]:
    """Return the groups that each rank is connected in; none where its other ends are not known."""
    by_rank: dict[int, list[GroupConnections]] = defaultdict(list)
    owners: dict[tuple[str, str], set[int]] = defaultdict(set)
    for fact in job.of(GroupConnections):
        member = job.member_of(fact.who)
        if member is not None and member.rank is not None:
            by_rank[member.rank].append(fact)
            for ends in fact.ends:
                owners[ends].add(member.rank)
    groups: dict[int, list[ConnectedGroup]] = {}
    for rank, facts in by_rank.items():
        groups[rank] = []
        for fact in facts:
            others = [owners.get((there, here), set()) for here, there in fact.ends]
            if others and all(len(some) == 1 for some in others):
                ranks = frozenset({rank}.union(*others))
                groups[rank].append(
                    ConnectedGroup(ranks=ranks, sent=fact.sent, received=fact.received)
                )
    return groups


def last_used(groups: Iterable[ConnectedGroup]) -> frozenset[int] | None:
    """Return the ranks of the group that was sent to last; None where that is not told.

    That is the group of a collective in which a rank stands, which begins with a send.
    Of several within one tick it is the one that has had no answer since.
    """
    times = [
        (group.sent, group.received or 0.0, group.ranks)
        for group in groups
        if group.sent is not None
    ]
    first = min((sent for sent, _, _ in times), default=0.0)
    latest = [each for each in times if each[0] <= first + TICK]
    if len({ranks for _, _, ranks in latest}) > 1:
        latest = [each for each in latest if each[0] == first and each[1] > first]
    ranks = {ranks for _, _, ranks in latest}
    return ranks.pop() if len(ranks) == 1 else None

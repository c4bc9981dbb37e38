"""The process groups of a job over gloo, by the TCP connections between its ranks.

A connection of a group has one of its ranks at either end; a group of which another end is not
known to be a rank's is left out.
"""

from collections import defaultdict

from whyhang.analyzer.facts import GroupConnections
from whyhang.analyzer.job.records import Job


def groups_in_call(job: Job) -> dict[int, list[frozenset[int]]]:
    """Return for each rank with connections the ranks of each group in whose call it is."""
    by_rank: dict[int, list[GroupConnections]] = defaultdict(list)
    owners: dict[tuple[str, str], set[int]] = defaultdict(set)
    for fact in job.of(GroupConnections):
        member = job.member_of(fact.who)
        if member is not None and member.rank is not None:
            by_rank[member.rank].append(fact)
            for ends in fact.ends:
                owners[ends].add(member.rank)
    groups: dict[int, list[frozenset[int]]] = {}
    for rank, facts in by_rank.items():
        groups[rank] = []
        for fact in facts:
            others = [owners.get((there, here), set()) for here, there in fact.ends]
            if fact.in_call and all(len(some) == 1 for some in others):
                groups[rank].append(frozenset({rank}.union(*others)))
    return groups

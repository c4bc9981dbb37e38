"""How many operations each rank of a communicator has launched, and how ranks compare."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

from whyhang.analyzer.facts import Record
from whyhang.collectors.ras.report import Comm, Counted, Member


class RankCounts(Record):
    """The launches of one rank by operation, over those operations that are known of all ranks."""

    member: Member
    counts: dict[str, int]

    @property
    def total(self) -> int:
        """How many launches these are."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        return ", ".join(f"{op or 'operations'} {count}" for op, count in self.counts.items())


def counts_of(comm: Comm, members: Sequence[Member]) -> list[RankCounts]:
    """Return the counts of each rank that answered, in operations known of all of them."""
    if comm.whole:
        answered = [(member, member.counts) for member in members if member.counts is not None]
        ops = sorted({op for _, counts in answered for op in counts})
        return [
            RankCounts(member=member, counts={op: counts.get(op, 0) for op in ops})
            for member, counts in answered
        ]
    by_op: dict[str, list[Counted]] = defaultdict(list)
    for counted in comm.counted:
        by_op[counted.op].append(counted)
    counts: dict[int, dict[str, int]] = {rank: {} for rank in _answered(comm, members, by_op)}
    for op, groups in by_op.items():
        listed = {member.rank: group.count for group in groups for member in group.ranks}
        others = [group.count for group in groups if not group.ranks]
        if len(others) > 1:
            return []  # half against half, and nobody is listed
        for rank, own in counts.items():
            if rank in listed or others:
                own[op] = listed[rank] if rank in listed else others[0]
    if len({tuple(sorted(own)) for own in counts.values()}) != 1:
        return []
    known = {member.rank: member for member in members}
    return [
        RankCounts(member=known.get(rank, Member(rank=rank)), counts=own)
        for rank, own in counts.items()
    ]


def _answered(
    comm: Comm, members: Sequence[Member], by_op: Mapping[str, Sequence[Counted]]
) -> Sequence[int]:
    """Return the ranks that the counts of a text are of; none where that cannot be known."""
    size = comm.size or 0
    away = {member.rank for member in members if member.state}
    numbers = {sum(group.size for group in groups) for groups in by_op.values()} - {size}
    if not numbers:
        return range(size)
    if numbers == {size - len(away)}:
        return [rank for rank in range(size) if rank not in away]
    return ()


def by_profile(ranks: Sequence[RankCounts]) -> dict[tuple[int, ...], list[RankCounts]]:
    """Put the ranks with equal counts together, under their counts by operation in order."""
    profiles: dict[tuple[int, ...], list[RankCounts]] = defaultdict(list)
    for rank in ranks:
        profiles[tuple(rank.counts[op] for op in sorted(rank.counts))].append(rank)
    return profiles


def is_chain(profiles: Sequence[tuple[int, ...]]) -> bool:
    """Return whether of any two one has at least as many launches of every operation."""
    return all(
        all(a <= b for a, b in zip(one, other, strict=True))
        for one, other in itertools.pairwise(sorted(profiles, key=sum))
    )


def one_op(ranks: Sequence[RankCounts]) -> str:
    """Return the operation in which ranks differ, "" if it is not one."""
    differ = [op for op in ranks[0].counts if len({rank.counts[op] for rank in ranks}) > 1]
    return differ[0] if len(differ) == 1 else ""

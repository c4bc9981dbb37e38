"""Findings about ranks that wait only for each other, in calls of several groups."""

from __future__ import annotations

from collections import defaultdict

from whyhang.analyzer.collectives import words
from whyhang.analyzer.collectives.graph import CallRef, Cycle
from whyhang.analyzer.collectives.heads import site_of
from whyhang.analyzer.collectives.mates import apart, odd_ones
from whyhang.analyzer.collectives.p2p import left_habit
from whyhang.analyzer.collectives.records import Finding, Side, Verdict
from whyhang.analyzer.collectives.routine import who_left
from whyhang.analyzer.collectives.scene import Scene, place, sources, with_partings

MAX_STUDIED = 4
"""Ranks beside a culprit whose whole recorder is read."""


def deadlock(scene: Scene, cycle: Cycle) -> Finding:
    """Judge ranks that wait only for each other, in calls of several groups."""
    links = cycle.chain
    caught = [link.wait.waiter for link in links]
    known = _fewer_by_group(scene, cycle) or tuple(
        sorted({rank for rank in caught if left_habit(scene.job, rank)})
    )
    parted = () if known else apart(scene.job, caught)
    culprits = known or tuple(odd.rank for odd in parted) or who_left(scene.job, caught)
    culprits = _and_alike(scene, culprits, cycle)
    quotes = scene.quotes([link.wait.waiter for link in links])
    odd = next((link for link in links if link.wait.waiter in culprits), links[0])
    return Finding(
        verdict=Verdict.CROSS_GROUP,
        says=with_partings(scene.job, words.deadlock(links), parted),
        call=links[0].wait.call,
        culprits=culprits,
        waiting=tuple(sorted(cycle.members - set(culprits))),
        affected=tuple(sorted((cycle.members | cycle.blocks) - set(culprits))),
        sides=tuple(
            Side(
                says=f"in {link.wait.call}",
                ranks=(link.wait.waiter,),
                call=link.wait.call or CallRef(op=None, group=""),
                site=link.wait.site,
                source=link.wait.source,
            )
            for link in links
        ),
        site=site_of(parted[0].own.call) if parted else odd.wait.site,
        cycle=cycle,
        quotes=quotes,
        sources=sources(quotes),
    )


def _and_alike(scene: Scene, culprits: tuple[int, ...], cycle: Cycle) -> tuple[int, ...]:
    """Add the ranks of a circle that stand in the same call as one that left its way.

    A chain shows one rank of each call only. Who came to that call as others do is no culprit.
    """
    found = set(culprits)
    for rank in culprits:
        meeting = scene.meeting_of(rank)
        beside = sorted(set(meeting.ranks if meeting else ()) & cycle.members - {rank})
        links = [link.wait.waiter for link in cycle.chain if link.wait.waiter not in culprits]
        for other in beside[:MAX_STUDIED]:
            if other not in links and other in odd_ones(scene.job, (other, *links[:1])):
                found.add(other)
    return tuple(sorted(found))


def _fewer_by_group(scene: Scene, cycle: Cycle) -> tuple[int, ...]:
    """Name the ranks that entered two groups in the rarer order, among those who are in both.

    Where sends or a third group are part of the circle, some only wait as a result, and to
    count them proves nothing.
    """
    calls = [link.wait.call for link in cycle.chain]
    if len({call.group for call in calls if call is not None and not call.p2p}) != 2:
        return ()
    if any(call is None or call.p2p for call in calls):
        return ()
    head_of = {
        rank: heads[0].group
        for rank, heads in scene.heads.of.items()
        if rank in cycle.members and heads[0].group >= 0
    }
    entered: dict[tuple[int, int], set[int]] = defaultdict(set)  # first group, other group
    for other in set(head_of.values()):
        for rank in scene.job.groups[other].members:
            if head_of.get(rank, other) != other:
                entered[head_of[rank], other].add(rank)
    culprits: set[int] = set()
    for (one, other), ranks in entered.items():
        opposite = entered.get((other, one), set())
        absent = scene.job.groups[one].absent & scene.job.groups[other].absent
        silent = max(scene.job.groups[one].silent, scene.job.groups[other].silent)
        if opposite and len(ranks) + len(absent) + silent < len(opposite):
            culprits |= ranks
    return tuple(sorted(culprits))


def of_split(scene: Scene, cycle: Cycle, split: set[tuple[int, int]]) -> bool:
    """Tell whether a cycle is nothing but ranks that met in different calls."""
    for link in cycle.chain:
        meeting = scene.meeting_of(link.wait.waiter)
        if meeting is not None and place(meeting) in split:
            return True
    return False

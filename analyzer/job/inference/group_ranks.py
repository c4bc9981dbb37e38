"""Ranks within groups: which global rank "TP3" is, where nothing else numbers the processes.

Programs that serve models label their processes by place in a group ("TP3", "DP0 TP1"). How the
groups lie in the job differs from program to program, so such a number is a global rank only where
a line says so, or where all processes count along one group: its size is stated, or it has no hole
and nothing speaks of a larger job.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from whyhang.analyzer.facts import (
    Fact,
    GroupSize,
    LogLine,
    Process,
    ProcessRank,
    Speaker,
    StackDump,
    Track,
    Who,
    replace,
)
from whyhang.analyzer.job.inference.local_ranks import widest
from whyhang.analyzer.job.inference.whose import AboutOne, ranked
from whyhang.analyzer.job.records import GROUP_RANK
from whyhang.analyzer.job.world import size_in


def with_group_ranks(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the global rank of facts whose label tells it, in a job of this shape."""
    processes: dict[str, set[tuple[str | None, int | None]]] = defaultdict(set)
    known: dict[str, set[int]] = defaultdict(set)
    highest = -1
    for fact in facts:
        who = _speaker(fact)
        if who is None:
            continue
        if who.rank is not None:
            highest = max(highest, who.rank)
        if who.label is None or not GROUP_RANK.match(who.label):
            continue
        processes[who.label].add((who.host, who.pid))
        if who.rank is not None:
            known[who.label].add(who.rank)
    if not processes or any(
        len({place for place in places if place[1] is not None}) > 1
        for places in processes.values()
    ):  # a label names more than one process, as in each of several replicas
        return facts
    ranks = {label: next(iter(numbers)) for label, numbers in known.items() if len(numbers) == 1}
    hosts = {host for places in processes.values() for host, _ in places} - {None}
    along = _along_one_group(processes, facts, highest, len(hosts))
    if all(along.get(label, rank) == rank for label, rank in ranks.items()):
        ranks = along | ranks
    return [
        ranked(fact, rank)
        if isinstance(fact, AboutOne)
        and fact.who.rank is None
        and (rank := ranks.get(fact.who.label or "")) is not None
        else fact
        for fact in facts
    ]


def _speaker(fact: Fact) -> Who | None:
    if isinstance(fact, ProcessRank):
        return replace(fact.who, rank=fact.rank)
    if isinstance(fact, StackDump | Track | LogLine | Process | Speaker):
        return fact.who
    return None


def _along_one_group(
    labels: Iterable[str], facts: Sequence[Fact], highest: int, hosts: int
) -> dict[str, int]:
    """Return the ranks that labels are if all processes count along one group; else none."""
    places = {label: place for label in labels if (place := GROUP_RANK.fullmatch(label))}
    axes: dict[str, set[int]] = defaultdict(set)
    for place in places.values():
        axes[place[1]].add(int(place[2]))
    if len(axes) > 1 and axes.get("DP") == {0}:  # the one engine, which is beside its workers
        del axes["DP"]
    if len(axes) != 1 or len(places) < len(set(labels)):  # a place in two groups
        return {}
    ((axis, numbers),) = axes.items()
    if axis == "PG rank ":  # of any group: its number, where no other is known
        alone = len(places) == 1 and highest < 0 and hosts < 2 and size_in(facts) is None
        return {label: int(place[2]) for label, place in places.items() if alone}
    others = any(f.size > 1 for f in facts if isinstance(f, GroupSize) and f.axis != axis)
    alone = highest < 0 and size_in(facts) is None and widest(facts) < 2 and not others
    if axis == "TP" and alone:  # vLLM and SGLang name the other groups, too, where there are any
        return {label: int(place[2]) for label, place in places.items()}
    stated = {fact.size for fact in facts if isinstance(fact, GroupSize) and fact.axis == axis}
    size = next(iter(stated)) if len(stated) == 1 else len(numbers)
    whole = len(stated) == 1 or (size > 1 and numbers == set(range(size)) and hosts < 2)
    larger = size_in(facts) not in {None, size} or widest(facts) > size or highest >= size
    if not whole or larger or max(numbers) >= size:
        return {}
    return {label: int(place[2]) for label, place in places.items() if place[1] == axis}

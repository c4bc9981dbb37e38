"""Ranks within groups: which global rank "TP3" is, where nothing else numbers the processes.

Programs that serve models label their processes by place in a group ("TP3", "DP0 TP1"). How the
groups lie in the job differs from program to program, so such a number is a global rank only where
a line says so, or where all processes count along one group: its size is stated, or it has no hole
and nothing speaks of a larger job. Stages of a pipeline lie one behind the other.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

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
    along = _along_groups(processes, facts, highest, len(hosts))
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


def _along_groups(
    labels: Iterable[str], facts: Sequence[Fact], highest: int, hosts: int
) -> dict[str, int]:
    """Return the ranks that labels are if all processes count along the same axes; else none."""
    places = {label: dict(GROUP_RANK.findall(label)) for label in labels}
    for label, of in places.items():
        if label != " ".join(f"{axis}{number}" for axis, number in of.items()):
            return {}  # which tells more than places
    axes = _axes_of([*places.values()])
    if axes == {"TP", "PP"}:
        return _in_stages(places, facts, highest)
    if len(axes) != 1 or any(axes.isdisjoint(of) for of in places.values()):
        return {}
    (axis,) = axes
    ranks = {label: int(of[axis]) for label, of in places.items()}
    if axis == "PG rank ":  # of any group: its number, where no other is known
        alone = len(places) == 1 and highest < 0 and hosts < 2 and size_in(facts) is None
        return ranks if alone else {}
    if any(size > 1 for other, size in _sizes(facts).items() if other != axis):
        return {}
    alone = highest < 0 and size_in(facts) is None and widest(facts) < 2
    if axis == "TP" and alone:  # vLLM and SGLang name the other groups, too, where there are any
        return ranks
    numbers = {*ranks.values()}
    stated = _sizes(facts).get(axis)
    size = stated or len(numbers)
    whole = stated is not None or (size > 1 and numbers == set(range(size)) and hosts < 2)
    larger = size_in(facts) not in {None, size} or widest(facts) > size or highest >= size
    return ranks if whole and not larger and max(numbers) < size else {}


def _axes_of(places: Sequence[Mapping[str, str]]) -> set[str]:
    """Return the axes along which labels count, without those that tell nothing further.

    Experts lie across the ranks of other axes. Data parallel attention lies across the tensor
    parallel ranks, as numbers show that are the same along all three; DP0 is the one engine.
    """
    axes = {axis for of in places for axis in of}
    if "TP" in axes:
        axes.discard("EP")
    attention = all({*of} >= {"DP", "TP", "EP"} and len({*of.values()}) == 1 for of in places)
    if "TP" in axes and (attention or {of.get("DP", "0") for of in places} == {"0"}):
        axes.discard("DP")
    return axes


def _in_stages(
    places: Mapping[str, Mapping[str, str]], facts: Sequence[Fact], highest: int
) -> dict[str, int]:
    """Return the ranks of places in stages of tensor parallel ranks: stage by stage."""
    sizes = _sizes(facts)
    each, stages = sizes.get("TP"), sizes.get("PP")
    if each is None or stages is None or highest >= 0 or sizes.get("DP", 1) > 1:
        return {}
    if size_in(facts) not in {None, each * stages}:
        return {}
    within = all(int(of["TP"]) < each and int(of["PP"]) < stages for of in places.values())
    return {label: int(of["PP"]) * each + int(of["TP"]) for label, of in places.items() if within}


def _sizes(facts: Iterable[Fact]) -> dict[str, int]:
    """Return the size of groups along each axis, where what is stated agrees."""
    stated: dict[str, set[int]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, GroupSize):
            stated[fact.axis].add(fact.size)
    return {axis: next(iter(sizes)) for axis, sizes in stated.items() if len(sizes) == 1}

"""Ranks by GPU: which rank a process is of which NCCL's lines tell the GPU and no rank.

Launchers give local rank n the n-th GPU. So the ranks of a host lie as far above its GPUs as those
that are known, and where none is known, everything is of one host, and its processes use different
GPUs, the GPU's number is the rank. It is marked as inferred.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from whyhang.analyzer.facts import (
    Exit,
    Fact,
    LastLine,
    LogLine,
    NcclDevice,
    ProcessRank,
    Trust,
    replace,
)
from whyhang.analyzer.job.inference.local_ranks import fits_one_host, widest
from whyhang.analyzer.job.world import size_in

_Process = tuple[str | None, int | None]


def with_device_ranks(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add the ranks of processes that follow from their GPUs."""
    of_devices = [fact for fact in facts if isinstance(fact, NcclDevice)]
    devices: dict[_Process, set[int]] = defaultdict(set)
    for fact in of_devices:
        devices[fact.who.host, fact.who.pid].add(fact.device)
    if not of_devices:
        return facts
    hosts: dict[str | None, list[int]] = defaultdict(list)
    for (host, _), own in devices.items():
        hosts[host] += own
    known = _known(facts, devices)
    offsets: dict[str | None, set[int]] = defaultdict(set)  # of ranks above the numbers of GPUs
    for process, rank in known.items():
        offsets[process[0]] |= {rank - device for device in devices[process]}
    spoken = (fact.who.rank for fact in facts if isinstance(fact, LogLine | Exit | LastLine))
    highest = max((rank for rank in spoken if rank is not None), default=-1)
    alone = len(hosts) == 1 and not known and highest <= max(map(max, hosts.values()))
    size = max(size_in(facts) or 0, widest(facts))
    added = []
    for fact in of_devices:
        numbers = hosts[fact.who.host]
        ways = offsets.get(fact.who.host, set())
        if not ways and alone and max(numbers) > 0 and fits_one_host(size, max(numbers)):
            ways = {0}
        shared = len(set(numbers)) < len(numbers)
        if len(ways) != 1 or shared or (fact.who.host, fact.who.pid) in known:
            continue
        rank = min(ways) + fact.device
        if rank >= 0 and (not size or rank < size):
            who = replace(fact.who, trust=Trust.INFERRED)
            added.append(ProcessRank(rank=rank, who=who, source=fact.source))
    return [*facts, *added] if added else facts


def _known(facts: Sequence[Fact], devices: Mapping[_Process, set[int]]) -> dict[_Process, int]:
    known: dict[_Process, int] = {}
    for fact in facts:
        if not isinstance(fact, ProcessRank | NcclDevice) or fact.rank is None:
            continue
        process = (fact.who.host, fact.who.pid)
        if process in devices:
            known.setdefault(process, fact.rank)
    return known

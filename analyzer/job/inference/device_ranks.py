"""Ranks by GPU: which rank a process is of which NCCL's lines tell the GPU and no rank.

Launchers give local rank n the n-th GPU. So the ranks of a host lie as far above its GPUs as those
that are known, and where none is known, everything is of one host, and its processes use different
GPUs, the GPU's number is the rank. It is marked as inferred. So is that of who has printed an error
that numbers its GPU ("GPU 3 has a total capacity of").
"""

import re
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
from whyhang.analyzer.job.inference.whose import AboutOne, ranked
from whyhang.analyzer.job.records import GROUP_RANK
from whyhang.analyzer.job.world import size_in

MOST_GPUS = 16  # of a host
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


def with_ranks_of_errors(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the rank of lines that number the GPU of who has printed them, who is not known.

    The first GPU may be the only one that a process sees; the number of any other is a rank where
    the job fits one host. Not in a file of which no line is of a rank, where those of others are:
    there a server or another program beside the job speaks.
    """
    numbers = {id(fact): number for fact in facts if (number := _own_device(fact))}
    if not numbers:
        return facts
    hosts = {who.host for fact in facts if (who := getattr(fact, "who", None)) is not None}
    size = size_in(facts) or MOST_GPUS
    of_ranks = {
        fact.source.file
        for fact in facts
        if isinstance(fact, AboutOne) and fact.who.rank is not None
    }
    if len(hosts - {None}) > 1 or size > MOST_GPUS:
        return facts
    return [
        ranked(fact, number)
        if isinstance(fact, LogLine)
        and 0 < (number := numbers.get(id(fact), 0)) < size
        and (not of_ranks or fact.source.file in of_ranks)
        else fact
        for fact in facts
    ]


def _own_device(fact: Fact) -> int:
    """Return the number of the GPU that an error of an unknown process names; 0 for any other."""
    if not isinstance(fact, LogLine) or fact.names_whom:
        return 0
    who, device = fact.who, fact.fields.get("device", "")
    placed = who.label is not None and (who.pid is None or bool(GROUP_RANK.match(who.label)))
    known = who.rank is not None or who.local_rank is not None or placed
    return 0 if known or not re.fullmatch(r"[0-9]{1,2}", device) else int(device)


def _known(facts: Sequence[Fact], devices: Mapping[_Process, set[int]]) -> dict[_Process, int]:
    known: dict[_Process, int] = {}
    for fact in facts:
        if isinstance(fact, ProcessRank | NcclDevice) and fact.rank is not None:
            known.setdefault((fact.who.host, fact.who.pid), fact.rank)
    return {process: rank for process, rank in known.items() if process in devices}

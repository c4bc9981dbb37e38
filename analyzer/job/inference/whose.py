"""Whose a fact is that names a process, a host or a file alone, where others say more of these."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeAlias, TypeVar

from whyhang.analyzer.facts import (
    Exit,
    Fact,
    LastLine,
    LaunchPlan,
    LogLine,
    LogTail,
    Process,
    ProcessRank,
    StackDump,
    Statement,
    Track,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.job.world import size_in

AboutOne: TypeAlias = Process | StackDump | Track | LogLine | Exit | Statement
"""Facts that are about one rank, process or host."""

F = TypeVar("F", bound=AboutOne)

LEAST = 3  # characters of a host's name that may be found in a path
MOST = 4096  # hosts that are looked for


def ranked(fact: F, rank: int | None, trust: Trust = Trust.INFERRED) -> F:
    """Return a fact with the rank that it is about; None takes it back."""
    return replace(fact, who=replace(fact.who, rank=rank, trust=trust))


def with_hosts_of_files(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the host of lines that name neither a host nor a rank, by the name of their file.

    "dmesg-gpu-b17.txt" and "gpu-b17/kern.log" are of the host gpu-b17 if some line names that one.
    A name of the same make ("gpu-b21" beside "gpu-b17") is that of another host: what is in the
    file is not about the ones that are known.
    """
    names = {who.host for fact in facts if (who := getattr(fact, "who", None)) and who.host}
    names = {name for name in names if len(name) >= LEAST and re.search(r"[A-Za-z]", name)}
    if not names or len(names) > MOST:
        return facts
    own = _any_word(re.escape(name) for name in names)
    alike = _any_word({re.sub(r"\d+", r"\\d+", re.escape(n)) for n in names if re.search(r"\d", n)})

    @cache
    def host_of(file: str) -> str | None:
        match = own.search(file) or alike.search(file)
        return match[0] if match else None

    return [
        replace(fact, who=replace(fact.who, host=host))
        if isinstance(fact, LogLine | Exit)
        and fact.who.host is None
        and fact.who.rank is None
        and fact.who.local_rank is None
        and (host := host_of(fact.source.file)) is not None
        else fact
        for fact in facts
    ]


def _any_word(names: Iterable[str]) -> re.Pattern[str]:
    longest = sorted(names, key=len, reverse=True) or [r"(?!)"]
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(longest)})(?![A-Za-z0-9])")


def with_ranks_of_pids(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the rank of facts that name a process, unless two ranks or hosts have its pid.

    A launcher's output tells how its processes ended, the ranks' own files which process they were.
    """
    known: dict[int, set[tuple[int, str | None]]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, ProcessRank) and fact.who.pid is not None:
            known[fact.who.pid].add((fact.rank, fact.who.host))
        elif (
            isinstance(fact, LogLine | LogTail | LastLine)
            and fact.who.trust >= Trust.PREFIX
            and fact.who.pid is not None
            and fact.who.rank is not None
        ):  # its label says both
            known[fact.who.pid].add((fact.who.rank, fact.who.host))
    sure = {pid: places.pop() for pid, places in known.items() if len(places) == 1}
    return [
        ranked(fact, sure[fact.who.pid][0], Trust.NCCL_INIT)
        if isinstance(fact, Exit | LogLine | LogTail | LastLine | StackDump)
        and fact.who.rank is None
        and fact.who.pid in sure
        and len({fact.who.host, sure[fact.who.pid][1]} - {None}) < 2
        else fact
        for fact in facts
    ]


def with_hosts_of_slots(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add the host of each rank by the one hostfile of the job, of which launchers fill the slots.

    Only where the job has as many ranks as the file has slots, and nothing tells other places.
    """
    plans = [fact for fact in facts if isinstance(fact, LaunchPlan) and fact.placed != ()]
    placed = plans[0].placed if len({plan.placed for plan in plans}) == 1 else None
    told = any(isinstance(fact, ProcessRank) and fact.who.host is not None for fact in facts)
    if placed is None or len(placed) != size_in(facts) or told:
        return facts
    whose = (Who(host=host, trust=Trust.INFERRED) for host in placed)
    source = plans[0].source
    return [*facts, *(ProcessRank(rank=n, who=who, source=source) for n, who in enumerate(whose))]


def with_sole_ranks(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the rank of facts that name a host, where ranks have said that each has its own."""
    ranks: dict[str, set[int]] = defaultdict(set)
    pids: dict[str, set[int | None]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, ProcessRank) and fact.who.host is not None:
            ranks[fact.who.host].add(fact.rank)
            pids[fact.who.host].add(fact.who.pid)
    alone = {host: next(iter(own)) for host, own in ranks.items() if len(own) == 1}
    if len(alone) < 2 or len(alone) < len(ranks) or len(set(alone.values())) < len(alone):
        return facts
    return [
        ranked(fact, alone[fact.who.host])
        if isinstance(fact, LogLine | LogTail | LastLine | Exit | Track)
        and fact.who.rank is None
        and fact.who.local_rank in {None, 0}
        and fact.who.host in alone
        and (fact.who.pid is None or pids[fact.who.host] <= {None, fact.who.pid})  # its launcher's
        else fact
        for fact in facts
    ]

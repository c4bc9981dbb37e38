"""The ranks of processes by the order in which their launcher started them, or ends them.

torchrun and mpirun start the ranks of a host one after the other, so that their pids rise with
their numbers, and torchrun ends them in that order. Where ps lists a launcher for one host and as
many processes of its program as it starts, or torchrun ends as many as speak in its log, each is
known. DataLoader workers have the command line of their rank: then there are too many.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import (
    Exit,
    Fact,
    LogLine,
    LogTail,
    ProcessState,
    StackDump,
    Trust,
    replace,
)
from whyhang.analyzer.job.launch import plan_of
from whyhang.analyzer.job.world import size_in

_MPIRUN = re.compile(
    r"(?:\S*/)?(?:mpirun|mpiexec|orterun)(?!.* --?(?:H|host|hostfile|machinefile) )"
    r".* --?(?:np?|c) (?P<count>\d+) "
)
_STOPPED = "death signal, shutting down workers"
_ENDS = re.compile(r"Sending process \d+ closing signal")


def with_ranks_in_order(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the rank of facts that name a pid and no rank."""
    ranks: dict[int, int] = {}
    for pids in (*_listed(facts), *_ended(facts)):
        ranks |= {pid: rank for rank, pid in enumerate(pids)}
    if not ranks:
        return facts
    return [
        replace(fact, who=replace(fact.who, rank=ranks[fact.who.pid], trust=Trust.INFERRED))
        if isinstance(fact, StackDump | ProcessState | Exit | LogLine)
        and fact.who.rank is None
        and fact.who.pid in ranks
        else fact
        for fact in facts
    ]


def _listed(facts: Sequence[Fact]) -> Iterator[list[int]]:
    """Yield the pids of the ranks of each launcher that ps lists, in order."""
    rows = {
        fact.who.pid: fact
        for fact in facts
        if isinstance(fact, ProcessState) and fact.who.pid is not None
    }
    counts = {pid: count for pid, row in rows.items() if (count := _starts(row.command))}
    for pid, count in counts.items():
        own = [
            child
            for child, row in rows.items()
            if child > pid and row.ppid in {None, pid} and _runs(row, rows[pid])
        ]
        if len(own) == count and (len(counts) == 1 or all(rows[n].ppid for n in own)):
            yield sorted(own)


def _starts(command: str) -> int | None:
    """Return how many ranks a command starts, all of them on this host."""
    plan = plan_of(command, {})
    if plan is not None:
        return plan.number("nproc_per_node") if plan.nodes() == (1, 1) else None
    match = _MPIRUN.match(command)
    return int(match["count"]) if match else None


def _runs(row: ProcessState, launcher: ProcessState) -> bool:
    """Return whether a process runs what its launcher was told to."""
    words = [word for word in row.command.split()[1:] if word != "-u"]
    return bool(words) and launcher.command.endswith(" " + " ".join(words))


def _ended(facts: Sequence[Fact]) -> Iterator[list[int]]:
    """Yield the pids that a torchrun ends, in its order, if they are those of all ranks.

    It was told to stop: none had failed before.
    """
    stopped = {f.source.file for f in facts if isinstance(f, LogLine) and _STOPPED in f.text}
    pids: dict[str, dict[int, None]] = defaultdict(dict)
    spoken: dict[str, set[int]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, Exit) and fact.who.pid is not None and _ENDS.search(fact.quote):
            pids[fact.source.file][fact.who.pid] = None
        elif isinstance(fact, LogLine | LogTail) and fact.who.rank is not None:
            spoken[fact.source.file].add(fact.who.rank)
    for file in pids.keys() & stopped:
        own = pids[file]
        if spoken[file] == set(range(len(own))) and (size_in(facts) or len(own)) == len(own):
            yield list(own)

"""Local ranks: which global rank "[default3]:" and ``attempt_0/3/stderr.log`` mean.

torchrun tells its workers' local ranks only. A global rank follows where some line of the same
file or host names both ("[default3]:[rank11]:"), or where everything speaks for a single node:
one host, and local ranks without a hole, or too high for a world of this size to have two hosts
of the kind. It is marked as inferred.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeGuard, TypeVar

from whyhang.analyzer.facts import (
    CommunicatorSize,
    Exit,
    Fact,
    LastLine,
    LogLine,
    LogTail,
    Process,
    ProcessRank,
    ProcessState,
    Speaker,
    StackDump,
    Track,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.job.inference.whose import AboutOne, ranked
from whyhang.analyzer.job.world import size_in

T = TypeVar("T")


def with_local_ranks_of_pids(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the local rank of processes of which torchrun says only that it ended them.

    It starts them in the order of their local ranks, so their pids are in it, too. Only where those
    of which both are known stand where they must; above the highest of these a process may be
    missing, unless as many are spoken of as there are ranks.
    """
    ended: dict[str, dict[int, set[int | None]]] = defaultdict(lambda: defaultdict(set))
    hosts: dict[str, set[str | None]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, Exit) and fact.who.pid is not None:
            ended[fact.source.file][fact.who.pid].add(fact.who.local_rank)
            hosts[fact.source.file].add(fact.who.host)
    size = size_in(facts)
    order: dict[str, dict[int, int]] = {}
    for file, known in ended.items():
        pids = sorted(known)
        places = {pid: place for place, pid in enumerate(pids)}
        told = {pid: local for pid, own in known.items() for local in own if local is not None}
        if told and len(hosts[file] - {None}) < 2 and told.items() <= places.items():
            last = len(pids) if len(pids) == size else max(told.values())
            order[file] = {pid: place for pid, place in places.items() if place < last}
    return [
        replace(fact, who=replace(fact.who, local_rank=local))
        if isinstance(fact, Exit)
        and fact.who.pid is not None
        and fact.who.local_rank is None
        and fact.who.rank is None
        and (local := order.get(fact.source.file, {}).get(fact.who.pid)) is not None
        else fact
        for fact in facts
    ]


def numbered(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the global rank of facts that know a local rank only, where it follows."""
    facts = _without_guesses(facts)
    unknown: dict[str | None, set[int]] = defaultdict(set)
    pairs: dict[str | None, set[int]] = defaultdict(set)
    files: dict[str, set[int]] = defaultdict(set)
    here: dict[str, set[int | None]] = defaultdict(set)
    paired: dict[str, set[int | None]] = defaultdict(set)
    highest = -1
    for fact in facts:
        if isinstance(fact, ProcessRank) and fact.who.local_rank is not None:
            rank: int | None = fact.rank
        elif _speaks(fact):
            rank = fact.who.rank
        else:
            continue
        highest = max(highest, -1 if rank is None else rank)
        local = fact.who.local_rank
        here[fact.source.file].add(local)
        if local is not None and rank is None:
            unknown[fact.who.host].add(local)
        elif local is not None and rank is not None:
            pairs[fact.who.host].add(rank - local)
            files[fact.source.file].add(rank - local)
            paired[fact.source.file].add(local)
    if not unknown:
        return facts
    offsets = _settled(pairs)
    if not pairs and _is_one_node(unknown, facts, highest):
        offsets = dict.fromkeys(unknown, 0)
    if len(pairs.keys() - {None}) == 1 and len(set(offsets.values())) == 1:
        offsets.setdefault(None, next(iter(offsets.values())))  # no other host is spoken of
    # A file may be of several nodes; not where each local rank in it is known to be one rank.
    of_one_node = {f: values for f, values in files.items() if here[f] - {None} <= paired[f]}
    by_file = _settled(of_one_node)
    return [
        ranked(fact, offset + fact.who.local_rank)
        if isinstance(fact, AboutOne)
        and fact.who.rank is None
        and fact.who.local_rank is not None
        and (offset := by_file.get(fact.source.file, offsets.get(fact.who.host))) is not None
        else fact
        for fact in facts
    ]


def _without_guesses(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Take back ranks that are the local ones of several hosts: each log took its own for all."""
    guessed = [f for f in facts if _speaks(f) and _is_guess(f.who)]
    if len({fact.who.host for fact in guessed} - {None}) < 2:
        return facts
    return [
        ranked(fact, None, Trust.NONE) if _speaks(fact) and _is_guess(fact.who) else fact
        for fact in facts
    ]


def _is_guess(who: Who) -> bool:
    return who.rank is not None and who.rank == who.local_rank and who.trust is Trust.INFERRED


def _settled(candidates: Mapping[T, set[int]]) -> dict[T, int]:
    return {key: next(iter(values)) for key, values in candidates.items() if len(values) == 1}


def _is_one_node(unknown: dict[str | None, set[int]], facts: Sequence[Fact], highest: int) -> bool:
    """Return whether no fact is about more ranks than these local ones, all of one host."""
    if len(unknown) != 1:
        return False
    (local_ranks,) = unknown.values()
    count, size = max(local_ranks) + 1, max(size_in(facts) or 0, widest(facts))
    enough = size > 0 or len(local_ranks) == count > 1
    return enough and highest < max(count, size) and fits_one_host(size, count - 1)


def fits_one_host(size: int, highest: int) -> bool:
    """Return whether so many ranks (0: not known) are no two hosts with this highest local rank."""
    return not size or highest < size < 2 * (highest + 1)


def widest(facts: Sequence[Fact]) -> int:
    """Return the size of the largest communicator in the facts."""
    return max((fact.size for fact in facts if isinstance(fact, CommunicatorSize)), default=0)


def _speaks(
    fact: Fact,
) -> TypeGuard[
    StackDump | Process | ProcessState | Track | LogLine | LogTail | Exit | LastLine | Speaker
]:
    """Return whether a fact is of a process; the end of a file says that its rank is there.

    A row of ps is of whatever runs on the host: of a rank where its command says so.
    """
    if isinstance(fact, LastLine):
        return fact.ends_log
    if isinstance(fact, ProcessState):
        return fact.who.local_rank is not None
    return isinstance(fact, StackDump | Process | Track | LogLine | LogTail | Exit | Speaker)

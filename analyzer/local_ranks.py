"""Local ranks: which global rank "[default3]:" and ``attempt_0/3/stderr.log`` mean.

torchrun tells its workers' local ranks only. A global rank follows where some line of the same
host names both ("[default3]:[rank11]:"), or where everything speaks for a single node: one
host, local ranks without a hole, and no sign of a larger world. It is marked as inferred.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.model import (
    Claim,
    Exit,
    Fact,
    Group,
    LogLine,
    Process,
    StackDump,
    Track,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.world import world_size


def numbered(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Give facts that know a local rank only the global rank it stands for, where it follows."""
    unknown: dict[str | None, set[int]] = defaultdict(set)
    pairs: dict[str | None, set[int]] = defaultdict(set)
    highest = -1
    for fact in facts:
        who = _who(fact)
        if who is None:
            continue
        highest = max(highest, -1 if who.rank is None else who.rank)
        if who.local_rank is not None and who.rank is None:
            unknown[who.host].add(who.local_rank)
        elif who.local_rank is not None and who.rank is not None:
            pairs[who.host].add(who.rank - who.local_rank)
    if not unknown:
        return facts
    offsets = {host: next(iter(found)) for host, found in pairs.items() if len(found) == 1}
    if not pairs and _is_one_node(unknown, facts, highest):
        offsets = dict.fromkeys(unknown, 0)
    return [_numbered(fact, offsets) for fact in facts] if offsets else facts


def _is_one_node(unknown: dict[str | None, set[int]], facts: Sequence[Fact], highest: int) -> bool:
    """Tell whether nothing speaks of more ranks than these local ones, all of one host."""
    if len(unknown) != 1:
        return False
    (local_ranks,) = unknown.values()
    count = len(local_ranks)
    if count < 2 or local_ranks != set(range(count)) or highest >= count:
        return False
    size, _ = world_size(
        [fact for fact in facts if isinstance(fact, Claim)],
        [fact for fact in facts if isinstance(fact, Process)],
        [fact for fact in facts if isinstance(fact, Group)],
    )
    return (size is None or size == count) and _widest(facts) <= count


def _widest(facts: Sequence[Fact]) -> int:
    """Give the size of the largest communicator that the facts speak of."""
    said = [fact.value for fact in facts if isinstance(fact, Claim) and fact.about == "ranks"]
    return max((int(value) for value in said if value.isdigit()), default=0)


def _who(fact: Fact) -> Who | None:
    if isinstance(fact, Claim) and fact.about == "log-end":  # a file of that rank is there
        return fact.who
    return fact.who if isinstance(fact, StackDump | Process | Track | LogLine | Exit) else None


def _numbered(fact: Fact, offsets: dict[str | None, int]) -> Fact:
    if not isinstance(fact, StackDump | Process | Track | LogLine | Exit):
        return fact
    who = fact.who
    if who.rank is not None or who.local_rank is None or who.host not in offsets:
        return fact
    rank = offsets[who.host] + who.local_rank
    return replace(fact, who=replace(who, rank=rank, trust=Trust.INFERRED))

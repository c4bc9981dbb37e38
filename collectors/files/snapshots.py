"""Which dumps are snapshots of one process, and which are of two that have the same pid."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.facts import StackDump, Who, replace
from whyhang.collectors.files import naming


def counted(dumps: Sequence[StackDump]) -> Iterator[StackDump]:
    """Yield dumps with their looks, in the order they were read, which is that of names.

    Dumps by different tools, or with and without native frames, are told apart: they may well
    have been taken of one standstill. What a manifest or a tool counted already stays.
    """
    looks: dict[tuple[object, ...], int] = defaultdict(int)
    for dump in _on_hosts(dumps):
        identity = _identity(dump.who)
        if dump.taken_at is not None or dump.look or identity is None:
            yield dump
            continue
        is_native = any(frame.native for thread in dump.threads for frame in thread.frames[:3])
        key = (*identity, dump.tool, is_native)
        look = looks[key]
        looks[key] += 1
        yield replace(dump, look=look) if look else dump


def _identity(who: Who) -> tuple[object, ...] | None:
    if who.pid is not None:
        return ("pid", who.host, who.pid, who.rank)
    if who.rank is not None:
        return ("rank", who.rank)
    if who.label is not None:
        return ("label", who.host, who.label)
    return None


def _on_hosts(dumps: Iterable[StackDump]) -> Iterator[StackDump]:
    """Keep processes of different hosts apart where only their pids are known, and are equal.

    In containers every node has its pid 1. Two dumps with equal pids are of one process if
    their commands and most of their threads are the same.
    """
    first: dict[int, StackDump] = {}
    for dump in dumps:
        who = dump.who
        if who.pid is None or who.host is not None or who.rank is not None:
            yield dump
            continue
        earlier = first.setdefault(who.pid, dump)
        if earlier.source.file == dump.source.file or _is_same_process(earlier, dump):
            yield dump
        else:
            name = naming.title(dump.source.file) or dump.source.file
            yield replace(dump, who=replace(who, host=name))


def _is_same_process(one: StackDump, other: StackDump) -> bool:
    if one.command is not None and other.command is not None and one.command != other.command:
        return False
    own = {thread.tid for thread in one.threads if thread.tid != one.who.pid}
    its = {thread.tid for thread in other.threads if thread.tid != other.who.pid}
    return not own or not its or 2 * len(own & its) >= min(len(own), len(its))

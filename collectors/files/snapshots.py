"""Which dumps are snapshots of one process, and which are of two that have the same pid."""

import itertools
import posixpath
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


def _has_only_a_pid(who: Who) -> bool:
    return who.pid is not None and who.host is None and who.rank is None


def _hosts_by_folder(dumps: Iterable[StackDump]) -> dict[str, str]:
    """Return the hosts after which folders are named that lie side by side and share a pid.

    Not where the names tell moments, nor where threads of such a pid are the same in two of them.
    """
    beside: dict[str, dict[str, dict[int, StackDump]]] = defaultdict(lambda: defaultdict(dict))
    for dump in dumps:
        folder = posixpath.dirname(dump.source.file)
        beside[posixpath.dirname(folder)][folder].setdefault(dump.who.pid or 0, dump)
    hosts: dict[str, str] = {}
    for folders in beside.values():
        names = {folder: posixpath.basename(folder) for folder in folders}
        pairs = [
            (one[pid], other[pid])
            for one, other in itertools.combinations(folders.values(), 2)
            for pid in one.keys() & other.keys()
        ]
        if (
            pairs
            and all(map(naming.may_be_host, names.values()))
            and all(_other_threads(one).isdisjoint(_other_threads(two)) for one, two in pairs)
        ):
            hosts.update(names)
    return hosts


def _other_threads(dump: StackDump) -> set[int | None]:
    """Return the threads beside the main one, which on two hosts are seldom the same."""
    return {thread.tid for thread in dump.threads} - {None, dump.who.pid}


def _on_hosts(dumps: Sequence[StackDump]) -> Iterator[StackDump]:
    """Keep processes of different hosts apart where only their pids are known, and are equal.

    In containers every node has its pid 1. Two dumps with equal pids are of one process if
    their commands and most of their threads are the same; folders side by side that are named
    like hosts are of several.
    """
    first: dict[int, StackDump] = {}
    hosts = _hosts_by_folder([dump for dump in dumps if _has_only_a_pid(dump.who)])
    for dump in dumps:
        who = dump.who
        if who.pid is None or not _has_only_a_pid(who):
            yield dump
            continue
        folder = posixpath.dirname(dump.source.file)
        if folder in hosts:
            yield replace(dump, who=replace(who, host=hosts[folder]))
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
    own, its = _other_threads(one), _other_threads(other)
    return not own or not its or 2 * len(own & its) >= min(len(own), len(its))

"""One job that was given twice: a bundle and its copy, or one with pseudonyms for its hosts.

The clock tells: no two processes of one pid begin in the same moment and are looked at in the same
moment, to the microsecond; nor do two processes of one rank have one pid and begin in the same
moment on two hosts. What stands in one folder with the second of them is left out.
"""

import posixpath
from collections import defaultdict
from collections.abc import Hashable, Sequence

from whyhang.analyzer.facts import Fact, Gap, Process, Role


def once(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Leave out what came from a folder that holds a look or a job which another one holds."""
    folders: dict[str, list[Process]] = defaultdict(list)
    for fact in facts:
        if isinstance(fact, Process) and fact.started_at is not None and fact.role is Role.RANK:
            folders[posixpath.dirname(fact.source.file)].append(fact)
    if len(folders) < 2:
        return facts
    again = _again(folders)
    left_out = tuple(f"{folder}/" for folder in again)
    kept = [fact for fact in facts if not (again and _file(fact).startswith(left_out))]
    why = "it was given twice: another folder is of the same processes, by their pids and times"
    return [*kept, *(Gap(what=folder, why=why, cost="it was left out") for folder in again)]


def _again(folders: dict[str, list[Process]]) -> list[str]:
    """List the folders all of whose processes stand in one before them."""
    looks: set[Hashable] = set()
    hosts: dict[Hashable, str | None] = {}
    again = []
    for folder, processes in folders.items():
        own_looks = set(map(_look, processes))
        own: dict[Hashable, str | None]
        own = {(p.who.rank, p.who.pid, p.started_at): p.who.host for p in processes}
        elsewhere = all(key in hosts and hosts[key] != host for key, host in own.items())
        ranked = all(process.who.rank is not None for process in processes)
        if own_looks <= looks or (elsewhere and ranked):
            again.append(folder)
        looks |= own_looks
        hosts = {**own, **hosts}
    return again


def _look(process: Process) -> Hashable:
    moment = process.taken_at if process.taken_at is not None else process.source.file
    return process.who.pid, process.look, moment, process.started_at


def _file(fact: Fact) -> str:
    source = getattr(fact, "source", None)
    return source.file if source is not None else ""

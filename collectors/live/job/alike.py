"""Ranks that a shell started one by one, and that were told their number as an argument.

``for r in 0 1 2; do python train.py --rank $r --dist-url tcp://… & done`` leaves no rank in any
environment. Such programs look like runs of an experiment with different seeds. That they are
ranks of one job is seen in their stacks, and their number in what ``init_process_group`` was
given, in an argument that says so, or in the variables of the program.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from whyhang.analyzer.model import Role, Trust, replace
from whyhang.collectors.live.frame_variables import Numbers
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import (
    Alike,
    Job,
    Member,
    ambiguous,
    by_rank,
    helpers,
    named,
)
from whyhang.collectors.live.job.spawned import is_rank
from whyhang.collectors.live.job.unnamed import job_of_family

_RANK, _SIZE = "--rank", ("--world-size", "--nprocs", "--num-procs")


def alike(host: Host, pid: int) -> tuple[int, ...]:
    """List the programs of one script that were started from the same shell, ``pid`` among them.

    ``pid`` is one of them or the shell above. Nothing where there are not several.
    """
    if host.is_python(pid):
        parent = host.stats[pid].ppid
        found = [one for one in host.children.get(parent, ()) if _same(host, one, pid)]
        return tuple(found) if len(found) > 1 and not host.is_python(parent) else ()
    below = [one for one in host.descendants(pid) if host.is_python(one)]
    tops = [one for one in below if not set(below).intersection(host.ancestors(one))]
    same = len(tops) > 1 and all(_same(host, one, tops[0]) for one in tops)
    return tuple(tops) if same else ()


def _same(host: Host, one: int, other: int) -> bool:
    return (
        host.is_python(one)
        and host.stats[one].session == host.stats[other].session
        and host.script(one) == host.script(other)
        and host.place(one) is None
        and host.launcher(one) is None
        and host.readable(one)
        and host.uses_torch(one)
    )


def job_of_alike(host: Host, pids: Sequence[int], target: int) -> Job:
    """Describe programs that are alike as ranks, until their stacks say what they are."""
    members = {pid: named(host, pid) for pid in pids}
    return Job(
        members=(*members.values(), *helpers(host, members)),
        alike=Alike(pids=tuple(pids), target=target),
    )


def settle(job: Job, host: Host, dumps: Mapping[int, bytes]) -> Job:
    """Keep together what takes part in torch.distributed, by the first stacks.

    Raises ``TargetError`` where a shell was asked about and the programs below it have nothing
    to do with each other.
    """
    if job.alike is None:
        return job
    pids, target = job.alike.pids, job.alike.target
    own = next((one for one in (target, *host.ancestors(target)) if one in pids), None)
    texts = {pid: dumps.get(pid, b"").decode(errors="replace") for pid in pids}
    ranks = [pid for pid in pids if is_rank(host, pid, texts[pid])]
    said = [pid for pid in pids if _option(host.arguments(pid), _RANK) is not None]
    together = {*ranks, *said} if ranks else set()
    if len(together) > 1 and (own in together or own is None):
        kept = {pid for pid in pids if pid in together}
        left = tuple(m for m in job.members if m.pid in kept or m.owner in kept)
        return replace(job, members=left)
    if own is not None:
        return job_of_family(host, own)
    raise ambiguous(target, pids, "Python programs")


def number(job: Job, host: Host, said: Mapping[int, Numbers]) -> Job:
    """Give the ranks the numbers that they were told; one that was told none keeps none."""
    ranks = [m.pid for m in job.members if m.role is Role.RANK]
    sizes = [numbers.size for numbers in said.values() if numbers.size]
    for pid in ranks:
        sizes += [n for name in _SIZE if (n := _option(host.arguments(pid), name)) is not None]
    size = max(sizes, default=None)
    guessed = {pid: said[pid].rank for pid in ranks if pid in said}
    given = [rank for rank in guessed.values() if rank is not None]
    distinct = len(set(given)) == len(given) and max(given, default=0) < (size or len(ranks))
    members = tuple(
        _numbered(member, host, said.get(member.pid, Numbers()), distinct=distinct)
        for member in job.members
    )
    return replace(
        job, members=tuple(sorted(members, key=by_rank)), launcher="a shell", world_size=size
    )


def _numbered(member: Member, host: Host, said: Numbers, *, distinct: bool) -> Member:
    if member.role is not Role.RANK:
        return member
    told = _option(host.arguments(member.pid), _RANK)
    if said.joins:
        return replace(member, rank=said.rank, trust=Trust.ENVIRONMENT)
    if told is not None:
        return replace(member, rank=told, trust=Trust.ENVIRONMENT)
    if said.rank is not None and distinct:
        return replace(member, rank=said.rank, trust=Trust.INFERRED)
    return member


def _option(arguments: Sequence[str], name: str) -> int | None:
    """Read a whole number behind an option, with dashes or underscores, with "=" or without."""
    words = [
        part
        for word in arguments
        for part in (word.split("=", 1) if word.startswith("-") else [word])
    ]
    return next(
        (
            int(value)
            for option, value in itertools.pairwise(words)
            if option.startswith("-")
            and "--" + option.lstrip("-").replace("_", "-") == name
            and value.isdecimal()
        ),
        None,
    )

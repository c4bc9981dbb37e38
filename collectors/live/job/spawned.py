"""Ranks that a Python program started through ``multiprocessing``: told by their stacks.

Their environment names no rank, and a DataLoader worker looks the same in /proc. The stack
shows which it is, and the local ``i`` of the frame ``_wrap (torch/multiprocessing/spawn.py)`` is
the number of the rank on this host (torch 1.0 to 2.15). Programs that use
``multiprocessing.Process`` themselves mostly call that argument ``rank``. Nothing else of the
local variables is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whyhang.analyzer.model import Role, Trust, replace
from whyhang.collectors.live.frame_variables import Numbers
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Job, Member, by_rank

_SPAWN = "torch/multiprocessing/spawn.py"
_THREADS_OF_RANKS = ("gloo_tcp_loop", "pt_gloo", "pt_nccl", "pt_tcpstore", "pt_autograd")


def settle(job: Job, host: Host, dumps: Mapping[int, bytes]) -> Job:
    """Tell ranks from helpers by their first stacks. Ranks get no number yet."""
    root = job.family
    children = [m for m in job.members if m.owner == root and m.role is Role.DATALOADER_WORKER]
    texts = {pid: data.decode(errors="replace") for pid, data in dumps.items()}
    kinds = {m.pid: _kind(host, m.pid, texts.get(m.pid, "")) for m in children}
    direct = [m.pid for m in children if host.mp_parent(m.pid) == root]
    ranks = {pid for pid in direct if kinds[pid] is not _WORKER}
    orphans = all(m.pid != root for m in job.members)
    proven = orphans or any(kinds[pid] is _RANK for pid in ranks)
    waits = "multiprocessing/" in texts.get(root or 0, "") and len(ranks) > 1
    if not proven and not (waits and all(host.uses_torch(pid) for pid in ranks)):
        return replace(job, members=tuple(_as_helper(m, kinds) for m in job.members))
    members = [_recast(m, root, ranks, kinds, host) for m in job.members]
    spawned = any(_SPAWN in texts.get(pid, "") for pid in (*ranks, root or 0))
    return replace(
        job, members=tuple(members), launcher="mp.spawn" if spawned else "multiprocessing"
    )


_RANK, _WORKER = Role.RANK, Role.DATALOADER_WORKER


def _kind(host: Host, pid: int, text: str) -> Role | None:
    if "_worker_loop" in text and "torch/utils/data/_utils/worker.py" in text:
        return _WORKER
    if host.own_role(pid) is not None:
        return host.own_role(pid)
    if _SPAWN in text or "torch/distributed/" in text:
        return _RANK
    names = [thread.name for thread in host.proc.threads(pid)]
    return _RANK if any(name.startswith(_THREADS_OF_RANKS) for name in names) else None


def is_rank(host: Host, pid: int, text: str) -> bool:
    """Tell whether a process takes part in torch.distributed, by its stack and its threads."""
    return _kind(host, pid, text) is _RANK


def _as_helper(member: Member, kinds: Mapping[int, Role | None]) -> Member:
    """Make a child of the family a worker only where its stack says so."""
    if member.pid in kinds:
        return replace(member, role=kinds[member.pid] or Role.OTHER)
    return member


def _recast(
    member: Member,
    root: int | None,
    ranks: set[int],
    kinds: Mapping[int, Role | None],
    host: Host,
) -> Member:
    if member.pid == root:
        return replace(member, role=Role.LAUNCHER)
    if member.pid in ranks:
        return replace(member, role=Role.RANK, owner=None)
    above = next((pid for pid in host.ancestors(member.pid) if pid in ranks), None)
    return _as_helper(replace(member, owner=above), kinds)


def number(job: Job, host: Host, said: Mapping[int, Numbers]) -> Job:
    """Give spawned ranks their numbers: from their variables, else in the order of their start."""
    spawned = [m for m in job.members if m.role is Role.RANK]
    sizes = [numbers.size for numbers in said.values() if numbers.size]
    known = {m.pid: said.get(m.pid, Numbers()).local_rank for m in spawned}
    complete = len({value for value in known.values() if value is not None}) == len(spawned)
    order = sorted(spawned, key=lambda m: (host.stats[m.pid].started, m.pid))
    fixed: dict[int, Member] = {}
    for position, member in enumerate(order):
        local = known[member.pid] if complete else position
        rank = said[member.pid].rank if member.pid in said else None
        first_node = host.environ(member.pid).get("NODE_RANK", "0") == "0"
        if rank is None and first_node:
            rank = local
        trust = Trust.NONE if rank is None else Trust.INFERRED
        fixed[member.pid] = replace(member, rank=rank, local_rank=local, trust=trust)
    size = max(sizes, default=None)
    numbers = [value for value in known.values() if value is not None]
    ended = _ended(host, job.family, numbers, size) if complete else []
    members = sorted((*(fixed.get(m.pid, m) for m in job.members), *ended), key=by_rank)
    return replace(job, members=tuple(members), world_size=size)


def _ended(host: Host, root: int | None, numbers: Sequence[int], size: int | None) -> list[Member]:
    """Count children of the program that have ended as the ranks that nobody else is.

    Said only where there are as many of the one as of the other: a helper that is done and was
    not collected looks the same.
    """
    dead = [
        pid
        for pid in host.children.get(root or 0, ())
        if host.stats[pid].state == "Z" and host.stats[pid].comm.startswith("python")
    ]
    missing = sorted(set(range(size or max(numbers, default=-1) + 1)) - set(numbers))
    if len(dead) != len(missing) or host.environ(root or 0).get("NODE_RANK", "0") != "0":
        return []
    return [
        Member(
            pid=pid,
            ppid=host.stats[pid].ppid,
            role=Role.RANK,
            rank=number,
            trust=Trust.INFERRED,
            local_rank=number,
        )
        for pid, number in zip(dead, missing, strict=True)
    ]

"""Ranks that no environment names: the first stacks tell which processes are ranks of the job.

A Python program that starts ranks through ``multiprocessing`` (a *family*) has children that look
in /proc like DataLoader workers. A shell that starts ranks one by one and tells them their number
as an argument (``for r in 0 1 2; do python train.py --rank $r & done``) leaves programs *alike*,
which look like runs of an experiment with different seeds. The stacks and threads show which take
part in torch.distributed. Their numbers come from variables of their frames
(``frame_variables.py``), from an argument that says so, or from the order of their start.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from whyhang.analyzer.facts import Role, Trust, replace, whole
from whyhang.analyzer.stacks.usercode import Origin, origin_of_file
from whyhang.collectors.live.frame_variables import SPAWN, Numbers
from whyhang.collectors.live.job.environment import options
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import (
    HostJob,
    JobProcess,
    ambiguous,
    by_rank,
    inferred_rank,
    with_helpers,
)
from whyhang.collectors.live.job.unnamed import job_of_family
from whyhang.collectors.stacks.pyspy_json import read_traces

_MANAGER = ("serve_forever", "multiprocessing/managers.py")
_THREADS_OF_RANKS = ("gloo_tcp_loop", "pt_gloo", "pt_nccl", "pt_tcpstore", "pt_autograd")
_RANK, _SIZES = ("--rank", "-rank"), ("--world-size", "--nprocs", "--num-procs")
_WORKER = Role.DATALOADER_WORKER


def alike(host: Host, pid: int) -> tuple[int, ...]:
    """List the programs of one script that were started from the same shell, ``pid`` among them.

    ``pid`` is one of them or the shell above. Nothing where there are not several.
    """
    if host.is_python(pid):
        parent = host.stats[pid].ppid
        programs = [one for one in host.children.get(parent, ()) if _same(host, one, pid)]
        return tuple(programs) if len(programs) > 1 and not host.is_python(parent) else ()
    tops = host.topmost(host.python_below(pid))
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


def job_of_alike(host: Host, pids: Sequence[int], target: int) -> HostJob:
    """Describe programs that are alike as ranks, until their stacks say what they are."""
    return HostJob(members=with_helpers(host, pids), alike=tuple(pids), target=target)


def settle(job: HostJob, host: Host, dumps: Mapping[int, bytes]) -> HostJob:
    """Tell ranks from other processes by their first stacks. Ranks get no number yet.

    Raises ``TargetError`` where a shell was asked about and the programs below it have nothing
    to do with each other.
    """
    stacks = {pid: data.decode(errors="replace") for pid, data in dumps.items()}
    if job.alike:
        job = _settle_alike(job, host, stacks)
    return job if job.family is None else _settle_family(job, job.family, host, stacks)


def whom_to_ask(job: HostJob) -> list[int]:
    """List the processes whose variables tell the numbers of ranks that have none."""
    ranks = [member.pid for member in job.ranks]
    if job.alike or job.launcher == "ray":
        return ranks
    return [] if job.family is None or job.family in ranks else [*ranks, job.family]


def number(job: HostJob, host: Host, numbers: Mapping[int, Numbers]) -> HostJob:
    """Return the ranks their numbers, by what their variables say."""
    sizes = [each.size for each in numbers.values() if each.size]
    if job.alike:
        given = (_option(host, member.pid, _SIZES) for member in job.ranks)
        sizes += [size for size in given if size is not None]
        job = replace(job, launcher="a shell", world_size=max(sizes, default=None))
    elif job.launcher != "ray":
        return _number_family(job, host, numbers, max(sizes, default=None))
    return _number_programs(job, host, numbers)


def _kind(host: Host, pid: int, stack: str) -> Role | None:
    """Say what a process is by its stack, its name and its threads."""
    if "_worker_loop" in stack and "torch/utils/data/_utils/worker.py" in stack:
        return _WORKER
    if host.own_role(pid) is not None:
        return host.own_role(pid)
    if all(mark in stack for mark in _MANAGER):
        return Role.OTHER  # a server of multiprocessing.Manager
    threads = (thread.name for thread in host.proc.threads(pid))
    is_rank = SPAWN in stack or "torch/distributed/" in stack
    return Role.RANK if is_rank or any(n.startswith(_THREADS_OF_RANKS) for n in threads) else None


def _settle_alike(job: HostJob, host: Host, stacks: Mapping[int, str]) -> HostJob:
    """Keep together what takes part in torch.distributed, or was given a rank beside such."""
    pids, target = job.alike, job.target
    own = next((one for one in (target, *host.ancestors(target)) if one in pids), None)
    ranks = {pid for pid in pids if _kind(host, pid, stacks.get(pid, "")) is Role.RANK}
    if ranks:
        ranks |= {pid for pid in pids if _option(host, pid, _RANK) is not None}
    if len(ranks) > 1 and (own in ranks or own is None):
        left = tuple(m for m in job.members if m.pid in ranks or m.owner in ranks)
        return replace(job, members=left)
    if own is not None:
        return job_of_family(host, own)
    raise ambiguous(target, pids, "Python programs")


def _settle_family(job: HostJob, root: int, host: Host, stacks: Mapping[int, str]) -> HostJob:
    """Tell spawned ranks from helpers."""
    children = [m for m in job.members if m.owner == root and m.role is _WORKER]
    kinds = {m.pid: _kind(host, m.pid, stacks.get(m.pid, "")) for m in children}
    direct = [m.pid for m in children if host.mp_parent(m.pid) == root]
    ranks = {pid for pid in direct if kinds[pid] not in {_WORKER, Role.OTHER}}
    orphans = all(m.pid != root for m in job.members)
    proven = orphans or any(kinds[pid] is Role.RANK for pid in ranks)
    waits = "multiprocessing/" in stacks.get(root, "") and len(ranks) > 1
    torch = all(host.uses_torch(pid) for pid in ranks)
    if not proven and not (waits and (torch or _are_alike(stacks, root, ranks))):
        return replace(job, members=tuple(_as_helper(m, kinds) for m in job.members))
    members = tuple(_recast(m, root, ranks, kinds, host) for m in job.members)
    spawned = any(SPAWN in stacks.get(pid, "") for pid in (*ranks, root))
    return replace(job, members=members, launcher="mp.spawn" if spawned else "multiprocessing")


def _are_alike(stacks: Mapping[int, str], root: int, children: Collection[int]) -> bool:
    """Return whether a program waits for these children to end, and all run one function of its.

    Then they share its work, whatever they meet by. The workers of a pool run a library's.
    """
    called = {_called_by_process(stacks.get(pid, ""), "run") for pid in children}
    joins = _called_by_process(stacks.get(root, ""), "join") is not None
    return (
        joins
        and len(called) == 1
        and all(f and origin_of_file(f[1]) is Origin.USER for f in called)
    )


def _called_by_process(stack: str, method: str) -> tuple[str, str] | None:
    """Return the function, with its file, that a method of ``Process`` has called."""
    for thread in read_traces(stack.encode()):
        for inner, frame in pairwise(thread.frames):
            name = frame.name.rpartition(".")[2]
            if name == method and frame.filename.endswith("multiprocessing/process.py"):
                return inner.name, inner.filename
    return None


def _as_helper(member: JobProcess, kinds: Mapping[int, Role | None]) -> JobProcess:
    """Make a child of the family a worker only where its stack says so."""
    if member.pid in kinds:
        return replace(member, role=kinds[member.pid] or Role.OTHER)
    return member


def _recast(
    member: JobProcess, root: int, ranks: set[int], kinds: Mapping[int, Role | None], host: Host
) -> JobProcess:
    if member.pid == root:
        return replace(member, role=Role.LAUNCHER)
    if member.pid in ranks:
        return replace(member, role=Role.RANK, owner=None)
    above = next((pid for pid in host.ancestors(member.pid) if pid in ranks), None)
    recast = _as_helper(replace(member, owner=above), kinds)
    if above is not None and recast.role is Role.RANK:
        return replace(recast, role=_WORKER)  # forked by a rank, whose stack it keeps below its own
    return recast


def _number_family(
    job: HostJob, host: Host, numbers: Mapping[int, Numbers], size: int | None
) -> HostJob:
    """Return spawned ranks their numbers: by their variables, else in the order of their start."""
    ranks = sorted(job.ranks, key=lambda m: (host.stats[m.pid].started, m.pid))
    known = {m.pid: numbers.get(m.pid, Numbers()).local_rank for m in ranks}
    local_ranks = [value for value in known.values() if value is not None]
    complete = len(set(local_ranks)) == len(ranks)
    fixed: dict[int, JobProcess] = {}
    for position, member in enumerate(ranks):
        local = known[member.pid] if complete else position
        rank = numbers.get(member.pid, Numbers()).rank
        if rank is None and _is_first_node(host, member.pid):
            rank = local
        trust = Trust.NONE if rank is None else Trust.INFERRED
        fixed[member.pid] = replace(member, rank=rank, local_rank=local, trust=trust)
    ended = _ended(host, job.family or 0, local_ranks, size) if complete else []
    members = sorted((*(fixed.get(m.pid, m) for m in job.members), *ended), key=by_rank)
    return replace(job, members=tuple(members), world_size=size)


def _is_first_node(host: Host, pid: int) -> bool:
    return host.environ(pid).get("NODE_RANK", "0") == "0"


def _ended(host: Host, root: int, numbers: Sequence[int], size: int | None) -> list[JobProcess]:
    """Count children of the program that have ended as the ranks that nobody else is.

    Said only where there are as many of the one as of the other: a helper that is done and was
    not collected looks the same.
    """
    dead = [
        pid
        for pid in host.children.get(root, ())
        if host.stats[pid].state == "Z" and host.stats[pid].comm.startswith("python")
    ]
    missing = sorted(set(range(size or max(numbers, default=-1) + 1)) - set(numbers))
    if len(dead) != len(missing) or not _is_first_node(host, root):
        return []
    return [inferred_rank(host, pid, rank, rank) for pid, rank in zip(dead, missing, strict=True)]


def _number_programs(job: HostJob, host: Host, numbers: Mapping[int, Numbers]) -> HostJob:
    """Return programs the number they join as, else of an argument, else of a variable.

    Variables count only where each has its own; workers of Ray may be on other hosts, too.
    """
    known = [rank for each in numbers.values() if (rank := each.rank) is not None]
    size = (job.world_size or len(job.ranks)) if job.alike else None
    fits = size is None or max(known, default=0) < size
    distinct = fits and len(set(known)) == len(known)
    members = []
    for member in job.members:
        said, rank, trust = numbers.get(member.pid, Numbers()), member.rank, member.trust
        option = _option(host, member.pid, _RANK)
        if member.role is Role.RANK and rank is None:
            if said.joins or option is not None:
                rank, trust = said.rank if said.joins else option, Trust.ENVIRONMENT
            elif said.rank is not None and distinct:
                rank, trust = said.rank, Trust.INFERRED
        members.append(replace(member, rank=rank, trust=trust))
    return replace(job, members=tuple(sorted(members, key=by_rank)))


def _option(host: Host, pid: int, names: Collection[str]) -> int | None:
    """Read a whole number behind an option."""
    numbers = map(whole, options(host.arguments(pid), names))
    return next((number for number in numbers if number is not None), None)

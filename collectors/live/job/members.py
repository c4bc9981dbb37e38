"""The processes of a job: what each is, and how they become one record."""

import os
import signal
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import (
    Exit,
    Gap,
    Process,
    Record,
    Role,
    Source,
    Trust,
    Who,
    counted,
    replace,
)
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.words import refusal


class JobProcess(Record):
    """One process of the job. ``owner`` is the pid of the rank that a helper works for."""

    pid: int
    ppid: int
    role: Role
    rank: int | None = None
    trust: Trust = Trust.NONE
    local_rank: int | None = None
    owner: int | None = None
    python: bool = True

    def who(self, hostname: str) -> Who:
        """Say whom a fact of the process is about: a helper has no rank."""
        return Who(
            rank=self.rank,
            trust=self.trust,
            host=hostname,
            pid=self.pid,
            local_rank=self.local_rank,
        )

    def describes(self, process: Process, hostname: str) -> Process:
        """Say of what was seen of the process which rank or helper it is."""
        return replace(
            process, who=self.who(hostname), role=self.role, owner_pid=self.owner, ppid=self.ppid
        )


class HostJob(Record):
    """The processes of one job on this host: ranks by number, then their helpers, launchers.

    ``launcher`` is what started the ranks ("torchrun", "mpirun", "mp.spawn"). ``family`` is the
    pid of a Python process whose children carry no rank in their environment: whether they
    are ranks or helpers is only seen in their stacks. ``alike`` are programs of one shell that
    may be its ranks; ``target`` is the one of them, or the shell, that was asked about.
    ``left_out`` names processes that look like the job's and were not counted in.
    """

    members: tuple[JobProcess, ...]
    launcher: str | None = None
    world_size: int | None = None
    family: int | None = None
    alike: tuple[int, ...] = ()
    target: int = 0
    left_out: tuple[Gap, ...] = ()

    @property
    def ranks(self) -> list[JobProcess]:
        """The rank processes."""
        return [member for member in self.members if member.role is Role.RANK]

    def in_words(self) -> str:
        """Say what there is: "8 ranks, 16 DataLoader workers, torchrun"."""
        workers = sum(member.role is Role.DATALOADER_WORKER for member in self.members)
        parts = [counted(len(self.ranks), "rank")]
        parts += [counted(workers, "DataLoader worker")] if workers else []
        return ", ".join([*parts, self.launcher] if self.launcher else parts)

    def rank_width(self) -> int:
        """Return how many digits the ranks have, so that their files sort."""
        return len(str(max((member.rank or 0 for member in self.members), default=0)))


def by_rank(member: JobProcess) -> tuple[bool, int, int]:
    """Order members by rank, those without one after them by pid."""
    return (member.rank is None, member.rank or 0, member.pid)


def _member(host: Host, pid: int, role: Role, **more: Any) -> JobProcess:
    return JobProcess(
        pid=pid, ppid=host.stats[pid].ppid, role=role, python=host.is_python(pid), **more
    )


def rank_by_environment(host: Host, pid: int) -> JobProcess:
    """Describe a rank process by what its environment says."""
    place = host.place(pid)
    rank, local = (place.rank, place.local_rank) if place else (None, None)
    trust = Trust.NONE if rank is None else Trust.ENVIRONMENT
    return _member(host, pid, Role.RANK, rank=rank, trust=trust, local_rank=local)


def inferred_rank(host: Host, pid: int, rank: int | None, local_rank: int | None) -> JobProcess:
    """Describe a rank process whose number was concluded."""
    trust = Trust.NONE if rank is None else Trust.INFERRED
    return _member(host, pid, Role.RANK, rank=rank, trust=trust, local_rank=local_rank)


def helper(host: Host, pid: int, role: Role | None, owner: int | None = None) -> JobProcess:
    """Describe a process that is no rank."""
    return _member(host, pid, role or Role.OTHER, owner=owner)


def helpers(host: Host, ranks: Iterable[int]) -> list[JobProcess]:
    """Describe everything that runs below these ranks and for them."""
    every = set(ranks)
    return [
        helper(host, pid, host.helper_role(pid, rank), rank)
        for rank in every
        for pid in host.descendants(rank)
        if _works_for(host, pid, rank, every)
    ]


def with_helpers(host: Host, ranks: Collection[int]) -> tuple[JobProcess, ...]:
    """Describe ranks by what their environment says, and all that runs for them."""
    return (*(rank_by_environment(host, pid) for pid in ranks), *helpers(host, ranks))


def _works_for(host: Host, pid: int, rank: int, ranks: set[int]) -> bool:
    """Return whether a process below a rank belongs to it: not to another, nor to another job."""
    if not ranks.isdisjoint({pid, *host.between(pid, rank)}) or host.has_ended(pid):
        return False
    its, own = host.identity(pid), host.identity(rank)
    return None in {its, own} or its == own


MOST_OTHERS = 8
"""Programs below a rank, beside its workers, whose stacks are read."""


def worth_reading(members: Iterable[JobProcess]) -> set[int]:
    """Choose the processes whose Python stacks are read: ranks, their workers, launchers.

    Of other Python programs below a rank, the first few are read as well: a checkpoint may be
    written in one. Pools of compile workers are not; they are many and wait for their rank.
    """
    chosen: set[int] = set()
    others = Counter[int | None]()
    for member in members:
        others[member.owner] += member.role is Role.OTHER and member.python
        few = member.role is Role.OTHER and others[member.owner] <= MOST_OTHERS
        wanted = few or member.role in {Role.DATALOADER_WORKER, Role.LAUNCHER}
        if member.role is Role.RANK or (member.python and wanted):
            chosen.add(member.pid)
    return chosen


def ended(host: Host, job: HostJob, hostname: str) -> Iterator[Exit]:
    """Yield the exits of the job's processes that nobody has collected (proc(5), stat)."""
    members = {member.pid: member for member in job.members}
    pids = [one for pid in members for one in (pid, *host.children.get(pid, ()))]
    for pid in filter(host.has_ended, dict.fromkeys(pids)):
        stat = host.stats[pid]
        number = os.WTERMSIG(stat.exit_code) if os.WIFSIGNALED(stat.exit_code) else None
        code = None if number else os.WEXITSTATUS(stat.exit_code)
        how = f"exit code {code}"
        if number is not None:
            known = number in set(signal.Signals)
            how = f"signal {signal.Signals(number).name if known else number}"
        who = members[pid].who(hostname) if pid in members else Who(host=hostname, pid=pid)
        yield Exit(
            who=who,
            source=Source(file=f"{host.proc.root}/{pid}/stat"),
            quote=f"process {pid} ({stat.comm}) has ended with {how} and was not collected by its "
            f"parent, process {stat.ppid}",
            exitcode=code,
            signal=number,
            parent=stat.ppid,
        )


def ambiguous(pid: int, choices: Iterable[int], what: str) -> TargetError:
    """Refuse a pid that stands above several jobs, and say which there are."""
    listed = sorted(choices)
    some = ", ".join(f"whyhang {one}" for one in listed[:8])
    return refusal("ambiguous", pid=pid, count=len(listed), what=what, choices=some)

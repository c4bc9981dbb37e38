"""The processes of a job: what each is, and how they become one record."""

from __future__ import annotations

from collections.abc import Iterable

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.model import Gap, Record, Role, Trust
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.ranks import helpers_of


class Member(Record):
    """One process of the job. ``owner`` is the pid of the rank that a helper works for."""

    pid: int
    ppid: int
    role: Role
    rank: int | None = None
    trust: Trust = Trust.NONE
    local_rank: int | None = None
    owner: int | None = None
    python: bool = True


class Alike(Record):
    """Programs that may be the ranks of one job, and the process that was asked about."""

    pids: tuple[int, ...]
    target: int


class Job(Record):
    """The processes of one job on this host: ranks by number, then their helpers, launchers.

    ``launcher`` is what started the ranks ("torchrun", "mpirun", "mp.spawn"). ``family`` is the
    pid of a Python process whose children carry no rank in their environment: whether they
    are ranks or helpers is only seen in their stacks. ``alike`` are programs of one shell that
    may be its ranks. ``left_out`` names processes that look like the job's and were not counted
    in.
    """

    members: tuple[Member, ...]
    launcher: str | None = None
    world_size: int | None = None
    family: int | None = None
    alike: Alike | None = None
    left_out: tuple[Gap, ...] = ()


def rank_width(job: Job) -> int:
    """Return how many digits the ranks of a job have, so that their files sort."""
    return len(str(max((member.rank or 0 for member in job.members), default=0)))


def by_rank(member: Member) -> tuple[bool, int, int]:
    """Order members by rank, those without one after them by pid."""
    return (member.rank is None, member.rank or 0, member.pid)


def named(host: Host, pid: int) -> Member:
    """Describe a rank process by what its environment says."""
    place = host.place(pid)
    rank = place.rank if place else None
    return Member(
        pid=pid,
        ppid=host.stats[pid].ppid,
        role=Role.RANK,
        rank=rank,
        trust=Trust.NONE if rank is None else Trust.ENVIRONMENT,
        local_rank=place.local_rank if place else None,
        python=host.is_python(pid),
    )


def helper(host: Host, pid: int, role: Role | None, owner: int | None) -> Member:
    """Describe a process that is no rank."""
    return Member(
        pid=pid,
        ppid=host.stats[pid].ppid,
        role=role or Role.OTHER,
        owner=owner,
        python=host.is_python(pid),
    )


def helpers(host: Host, ranks: Iterable[int]) -> list[Member]:
    """Describe everything that runs below these ranks and for them."""
    own = set(ranks)
    return [
        helper(host, pid, role, rank) for rank in own for pid, role in helpers_of(host, rank, own)
    ]


def ambiguous(pid: int, choices: Iterable[int], what: str) -> TargetError:
    """Refuse a pid that stands above several jobs, and say which there are."""
    listed = sorted(choices)
    return TargetError(
        f"there are {len(listed)} {what} below process {pid}",
        "Choose one of them: " + ", ".join(f"whyhang {one}" for one in listed[:8]) + ".",
    )

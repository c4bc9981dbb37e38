"""The aligned job: what signatures ask their questions to."""

from __future__ import annotations

from whyhang.analyzer.model import (
    Claim,
    Excerpt,
    Exit,
    Gap,
    Group,
    LogLine,
    Process,
    Record,
    Role,
    Source,
    StackDump,
    Track,
    Trust,
    Who,
)


class Child(Record):
    """A process that belongs to a rank: a DataLoader worker, a compile worker."""

    role: Role
    pid: int | None
    processes: tuple[Process, ...] = ()  # one per look
    dumps: tuple[StackDump, ...] = ()  # one per look


class Member(Record):
    """One rank of the job, or a process that is one though its number is not known.

    ``processes`` and ``dumps`` hold one record per look, in order; either may be empty when
    only logs or recorder dumps speak of the rank. ``copies`` is how many processes the
    evidence says it stands for.
    """

    id: int
    rank: int | None
    trust: Trust
    host: str | None = None
    pid: int | None = None
    label: str | None = None
    local_rank: int | None = None
    processes: tuple[Process, ...] = ()
    dumps: tuple[StackDump, ...] = ()
    children: tuple[Child, ...] = ()
    copies: int = 1

    @property
    def name(self) -> str:
        """Name it as a person would: "rank 3", else "pid 4711 on node48", else its label."""
        if self.rank is not None:
            return f"rank {self.rank}"
        where = f" on {self.host}" if self.host else ""
        if self.pid is not None:
            return f"pid {self.pid}{where}"
        return f"{self.label or 'a process'}{where}"


class Gone(Record):
    """A rank that should run on a host that was looked at, and has no living process there."""

    rank: int
    source: Source
    quote: str  # what says that it should be there
    host: str | None = None


class Job(Record):
    """Everything known of one job, with each fact attached to the rank it is about."""

    members: tuple[Member, ...]
    launchers: tuple[Child, ...] = ()
    world_size: int | None = None
    world_size_how: str = ""
    absent: tuple[int, ...] = ()  # expected ranks of which there is no evidence at all
    gone: tuple[Gone, ...] = ()
    tracks: tuple[Track, ...] = ()
    groups: tuple[Group, ...] = ()
    lines: tuple[LogLine, ...] = ()
    exits: tuple[Exit, ...] = ()
    claims: tuple[Claim, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def member_of(self, who: Who) -> Member | None:
        """Find the member that a fact is about, or None where it cannot be told."""
        for member in self.members:
            if who.rank is not None and member.rank == who.rank:
                return member
            if (
                who.rank is None
                and who.pid is not None
                and member.pid == who.pid
                and (who.host is None or member.host is None or who.host == member.host)
            ):
                return member
        return None


class Case(Record):
    """A job with its alignment: what matchers ask."""

    job: Job

"""The aligned job: what signatures ask their questions to."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from whyhang.analyzer.ends import End
from whyhang.analyzer.facts import S, Statement
from whyhang.analyzer.gpus import Devices
from whyhang.analyzer.ledger import LedgerReport, Spot
from whyhang.analyzer.model import (
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
    few,
)
from whyhang.analyzer.model_meeting import Agent, FileView, StoreView
from whyhang.analyzer.motion import Motion
from whyhang.analyzer.waits import Phrase, Place, WaitKind


class Child(Record):
    """A process that belongs to a rank: a DataLoader worker, a compile worker."""

    role: Role
    pid: int | None
    processes: tuple[Process, ...] = ()  # one per look
    dumps: tuple[StackDump, ...] = ()  # one per look


class Member(Record):
    """One rank of the job, or a process that is one though its number is not known.

    ``processes`` and ``dumps`` hold one record per look, in order; either may be empty when
    only logs or recorder dumps speak of the rank. ``children`` work for it as workers do,
    ``helpers`` are other programs that it started. ``copies`` is how many processes the
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
    helpers: tuple[Child, ...] = ()
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
    """A rank that should run on a host that was looked at, and has no living process there.

    ``beyond``: no host runs it, for the launcher has started fewer ranks than the job counts.
    """

    rank: int
    source: Source
    quote: str  # what says that it should be there
    host: str | None = None
    beyond: bool = False


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
    statements: tuple[Statement, ...] = ()
    stores: tuple[StoreView, ...] = ()
    files: tuple[FileView, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    agents: tuple[Agent, ...] = ()
    gaps: tuple[Gap, ...] = ()
    gpus: Devices = Devices()
    by_rank: dict[int, int] = {}  # noqa: RUF012 - rank to member; msgspec copies it
    by_pattern: dict[str, tuple[int, ...]] = {}  # noqa: RUF012 - pattern to lines it found
    by_pid: dict[int, tuple[int, ...]] = {}  # noqa: RUF012 - pid to members on any host

    def of(self, kind: type[S]) -> tuple[S, ...]:
        """Return the statements of one kind, in the order they came."""
        return tuple(fact for fact in self.statements if isinstance(fact, kind))

    def lines_with(self, patterns: Iterable[str]) -> list[LogLine]:
        """Give the log lines that any of these patterns found, in the order they came."""
        numbers = {number for pattern in patterns for number in self.by_pattern.get(pattern, ())}
        return [self.lines[number] for number in sorted(numbers)]

    def member_of(self, who: Who) -> Member | None:
        """Find the member that a fact is about, or None where it cannot be told."""
        if who.rank is not None:
            found = self.by_rank.get(who.rank)
            return self.members[found] if found is not None else None
        if who.pid is None:
            return None
        for number in self.by_pid.get(who.pid, ()):
            member = self.members[number]
            if who.host is None or member.host is None or who.host == member.host:
                return member
        return None


def lock_holder(job: Job, member: Member) -> Member | None:
    """Find the member that holds the lock on a file that another one waits for."""
    lock = member.processes[-1].lock if member.processes else None
    if lock is None:
        return None
    holder = job.member_of(Who(host=member.host, pid=lock.holder_pid))
    return holder if holder is not member else None


class Status(enum.Enum):
    """Where a member stands towards the others, all evidence taken together."""

    WAITING = "waiting"  # on other ranks
    MAYBE = "maybe"  # perhaps on other ranks
    BLOCKED = "blocked"  # on something local
    RUNNING = "running"  # on nothing
    STOPPED = "stopped"  # by a signal or a debugger
    MOVING = "moving"  # it went on between the looks
    IDLE = "idle"  # it has nothing to do
    GONE = "gone"  # dead
    UNSEEN = "unseen"  # no stack and no process state says anything


class RankState(Record):
    """Where one member stands.

    ``place`` is its place at the last look, ``earlier`` how it stood at the looks before, oldest
    first. ``children`` are the places of its workers, in order. ``end`` is how it ended, where that
    is told. ``spot`` is where its records show it, where no stack does.
    ``ras`` is the state that NCCL RAS tells of it, ``last_line`` what its log says last.
    """

    member: int
    place: Place | None
    motion: Motion
    status: Status
    earlier: tuple[Status, ...] = ()
    children: tuple[Place | None, ...] = ()
    end: End | None = None
    spot: Spot | None = None
    ras: str = ""
    last_line: str = ""


class Meeting(Record):
    """Ranks that wait in the same operation. ``sites`` are their places in the user's code."""

    kind: WaitKind
    op: str
    says: Phrase
    members: tuple[int, ...]
    sites: tuple[str, ...]


class WaitGraph(Record):
    """The wait graph read off the stacks.

    ``roots`` are members that wait for no rank while others wait; ``apart`` the same whether or
    not anyone is seen waiting. ``progress``: the job as a whole moves (None: cannot be told).
    """

    waiting: tuple[int, ...]
    maybe: tuple[int, ...]
    roots: tuple[int, ...]
    apart: tuple[int, ...]
    meetings: tuple[Meeting, ...]
    progress: bool | None
    looks: int


class Case(Record):
    """A job with its alignment: what signatures ask.

    ``agents`` are the launchers with a rendezvous of their own, as logs and processes tell.
    """

    job: Job
    graph: WaitGraph
    ledger: LedgerReport
    states: tuple[RankState, ...] = ()
    agents: tuple[Agent, ...] = ()

    def member(self, number: int) -> Member:
        """Give a member by its number."""
        return self.job.members[number]

    def ranks(self, members: Iterable[int]) -> tuple[int, ...]:
        """Give the rank numbers of members, leaving out those that are not known."""
        found = {self.job.members[number].rank for number in members}
        return tuple(sorted(rank for rank in found if rank is not None))

    def names(self, members: Iterable[int]) -> str:
        """Name members in words: "rank 2", "ranks 0-1,3", "pid 7 on node1"."""
        chosen = [self.job.members[number] for number in members]
        ranks = sorted({m.rank for m in chosen if m.rank is not None})
        others = [m.name for m in chosen if m.rank is None]
        copies = sum(m.copies for m in chosen if m.rank is None)
        if len(others) > 3 or copies > len(others):
            others = [
                f"{copies} processes ({', '.join(others[:2])}{', …' if len(others) > 2 else ''})"
            ]
        label = [f"rank{'s' if len(ranks) > 1 else ''} {few(ranks)}"] if ranks else []
        return ", ".join(label + others)

"""The job: its ranks and launchers, with each fact attached to the rank it is about."""

import re
from collections import defaultdict
from collections.abc import Iterable

from whyhang.analyzer.facts import (
    Agent,
    Excerpt,
    Exit,
    FileView,
    Frame,
    Gap,
    Group,
    InitArguments,
    LogLine,
    Process,
    Record,
    Role,
    S,
    Source,
    StackDump,
    Statement,
    StoreView,
    Track,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.job.device import Devices

GROUP_RANK = re.compile(
    r"((?:(?:ATTN|MOE)_)?(?:DP|TP|PP|EP|CP)|process |worker |task |PG rank )(\d{1,4})"
)
"""A label that counts within a group of ranks, or among processes."""


class Observed(Record):
    """A process with what was seen of it: one record per snapshot, in order; either may be none."""

    processes: tuple[Process, ...] = ()
    dumps: tuple[StackDump, ...] = ()

    @property
    def last(self) -> Process | None:
        """The process as it was seen last; None where no snapshot has it."""
        return self.processes[-1] if self.processes else None

    @property
    def environ(self) -> dict[str, str]:
        """What was kept of its environment; empty where it was not seen."""
        return self.processes[-1].environ if self.processes else {}

    def process_at(self, look: int) -> Process | None:
        """Return the process as a snapshot has it."""
        return next((p for p in reversed(self.processes) if p.look == look), None)

    def main_frames(self) -> tuple[Frame, ...]:
        """Return the main thread's frames in the last stack, innermost first, native ones too."""
        thread = main_thread(self.dumps[-1]) if self.dumps else None
        return thread.frames if thread is not None else ()


class Child(Observed, kw_only=True):
    """A process that belongs to a rank: a DataLoader worker, a compile worker."""

    role: Role
    pid: int | None


class Member(Observed, kw_only=True):
    """One rank of the job, or a process that is one though its number is not known.

    There may be logs or recorder dumps of it alone. ``children`` work for it as workers do,
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
    children: tuple[Child, ...] = ()
    helpers: tuple[Child, ...] = ()
    copies: int = 1

    @property
    def name(self) -> str:
        """Name it as a person would: "rank 3", "TP3", else "pid 4711 on node48"."""
        if self.rank is not None:
            return f"rank {self.rank}"
        return unnumbered(self)


ANONYMOUS = "a process"
"""The name of one of which nothing is known but, perhaps, its host."""


def unnumbered(who: Who | Member) -> str:
    """Name a process whose rank is not known by its place in groups, its pid or its label."""
    where = f" on {who.host}" if who.host and who.host != who.label else ""
    if who.pid is not None and not GROUP_RANK.match(who.label or ""):
        return f"pid {who.pid}{where}"
    return f"{who.label or ANONYMOUS}{where}"


class MissingRank(Record):
    """A rank that should run on a host whose processes were read, and has no living process there.

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
    missing: tuple[MissingRank, ...] = ()
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
    by_rank: dict[int, int] = {}  # rank to member
    by_pattern: dict[str, tuple[int, ...]] = {}  # pattern to lines it found
    by_pid: dict[int, tuple[int, ...]] = {}  # pid to members on any host

    def of(self, kind: type[S]) -> tuple[S, ...]:
        """Return the statements of one kind, in the order they came."""
        return tuple(fact for fact in self.statements if isinstance(fact, kind))

    def by_member(self, kind: type[S]) -> dict[int, list[S]]:
        """Return the statements of one kind by the member that each is about, as they came."""
        of_members: dict[int, list[S]] = defaultdict(list)
        for fact in self.of(kind):
            if (member := self.member_of(fact.who)) is not None:
                of_members[member.id].append(fact)
        return dict(of_members)

    def lines_with(self, patterns: Iterable[str]) -> list[LogLine]:
        """Return the log lines that any of these patterns found, in the order they came."""
        found = [self.by_pattern[pattern] for pattern in patterns if pattern in self.by_pattern]
        return [self.lines[number] for number in sorted(set().union(*found))] if found else []

    def member_of(self, who: Who) -> Member | None:
        """Find the member that a fact is about, or None where that is not known."""
        if who.rank is not None:
            index = self.by_rank.get(who.rank)
            return self.members[index] if index is not None else None
        return self.member_at(who.host, who.pid)

    def member_at(self, host: str | None, pid: int | None) -> Member | None:
        """Find the member that is a process of a host: hosts have processes of the same pid."""
        for number in self.by_pid.get(pid, ()) if pid is not None else ():
            member = self.members[number]
            if host is None or member.host is None or host == member.host:
                return member
        return None

    def members_asked(self, view: StoreView | FileView) -> tuple[int, ...]:
        """Return the members as which a place was looked at."""
        asked = (self.member_at(view.who.host, pid) for pid in view.asked_by)
        return tuple(sorted({member.id for member in asked if member is not None}))

    def init_arguments(self) -> list[tuple[Member, InitArguments]]:
        """Return what processes of the job have given ``init_process_group``, argument by argument.

        By process and not by rank: two of them may say that they are the same one.
        """
        facts = ((self.member_at(f.who.host, f.who.pid), f) for f in self.of(InitArguments))
        return [(member, fact) for member, fact in facts if member is not None]


def by_pattern(lines: Iterable[LogLine]) -> dict[str, tuple[int, ...]]:
    """Return the numbers of the lines that each pattern found."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        for pattern in line.matched:
            numbers[pattern].append(number)
    return {pattern: tuple(of_pattern) for pattern, of_pattern in numbers.items()}


def with_lines(job: Job, lines: tuple[LogLine, ...]) -> Job:
    """Return a job with other lines."""
    return replace(job, lines=lines, by_pattern=by_pattern(lines))


def lock_holder(job: Job, member: Member) -> Member | None:
    """Find the member that holds the lock on a file that another one waits for."""
    if member.last is None or member.last.lock is None:
        return None
    holder = job.member_of(Who(host=member.host, pid=member.last.lock.holder_pid))
    return holder if holder is not member else None

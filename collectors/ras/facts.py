"""From a RAS report to facts: how far each rank came, and who is missing.

RAS counts what the host has launched, per operation. All ranks of a communicator launch the
same calls in one order, so whatever the moment, the counts of one rank are at least those of
another in every operation; where neither of two ranks is ahead in all, they called different
things. That holds for a job that moves as well. Being behind does not: see the ledger.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from whyhang.analyzer.facts import (
    MAX_RANKS,
    NOBODY,
    RAS_LINE,
    Call,
    CallState,
    Fact,
    Group,
    LogLine,
    ProcessRank,
    RasReport,
    Record,
    Setting,
    Statement,
    Track,
    Trust,
    Who,
    WorldSize,
    fold,
    replace,
)
from whyhang.analyzer.reading import Document
from whyhang.collectors.ras.report import REMOTE, Comm, Counted, Member, Peer, Report


class Standing(Record):
    """The counts of one rank by operation, over those operations that are told of all ranks."""

    member: Member
    counts: dict[str, int]

    @property
    def total(self) -> int:
        """How many calls these are."""
        return sum(self.counts.values())


class _Job:
    """Which rank of the job a rank of a communicator is."""

    def __init__(self, report: Report) -> None:
        nodes: dict[int, set[str | None]] = defaultdict(set)
        for comm in report.comms:
            for member in comm.members:
                if member.peer.pid is not None:
                    nodes[member.peer.pid].add(member.peer.node)
        self._own = {pid for pid, on in nodes.items() if len(on) == 1}  # mean one process
        self.nodes = {node for on in nodes.values() for node in on if node is not None}
        self.size = _world(report)
        world = [c for c in report.comms if self.size is not None and c.size == self.size]
        self.ranks = _numbers(world)
        self.world = {comm.hash for comm in world} if self.ranks is not None else set()

    def who(self, comm: Comm | None, rank: int | None, peer: Peer) -> Who:
        """Say who a rank is; by its process where that alone tells."""
        number = rank if comm is not None and comm.hash in self.world else None
        if number is None and self.ranks is not None:
            number = self.ranks.get((peer.node, peer.pid))
        if number is not None:
            return Who(rank=number, trust=Trust.NCCL_INIT)
        if peer.pid in self._own:
            return Who(pid=peer.pid)
        return Who(label=f"process {peer.pid} on {peer.node}") if peer.pid is not None else NOBODY


_Process = tuple[str | None, int | None]


def _world(report: Report) -> int | None:
    """Give the number of ranks of the job, if some communicator spans all of it."""
    sizes = [comm.size for comm in report.comms if comm.size]
    if not sizes:
        return None
    size = max(sizes)
    if report.gpus is not None:
        return size if size == report.gpus else None
    everyone = {_process(m) for comm in report.comms for m in comm.members if m.peer.pid}
    widest = [comm for comm in report.comms if comm.size == size]
    covered = {_process(m) for m in widest[0].members}
    return size if everyone <= covered and size == len(widest[0].members) else None


def _process(member: Member) -> _Process:
    return (member.peer.node, member.peer.pid)


def _numbers(world: Sequence[Comm]) -> dict[_Process, int] | None:
    """Give the rank of each process by the communicators of all; None where these disagree."""
    found: dict[_Process, int] = {}
    for comm in world:
        for member in comm.members:
            if member.peer.pid is None:
                continue
            if found.setdefault(_process(member), member.rank) != member.rank:
                return None
    return found if world else None


def facts(report: Report, document: Document) -> Iterator[Fact]:
    """Yield the version, groups, tracks of ranks, and a line for each thing that is wrong."""
    job = _Job(report)
    yield from _statements(report, job, document)
    wrong = bool(report.lost)
    for lost in report.lost:
        who = job.who(None, None, lost.peer)
        yield _line(document, who, lost.state, lost.quote, lost.line, lost.peer)
    for comm in report.comms:
        if comm.size and comm.size <= MAX_RANKS:
            for fact in _of_comm(comm, job, document):
                wrong = wrong or isinstance(fact, LogLine) or _differs(fact)
                yield fact
    if report.timeouts and report.timeouts_line is not None:
        text = f"Encountered {report.timeouts} communication timeouts"
        yield _line(document, NOBODY, "timeouts", text, report.timeouts_line)
    if report.empty_line is not None:
        text = "No communicator data collected!"
        yield _line(document, NOBODY, "none", text, report.empty_line)
    elif not wrong and not report.cut:
        text = f"NCCL {report.version or '?'}: no errors, no warnings, equal counts"
        yield _line(document, NOBODY, "even", text, None)


def _differs(fact: Fact) -> bool:
    """Tell whether a track is of a communicator whose ranks differ."""
    return isinstance(fact, Track) and fact.completed is not None


def _statements(report: Report, job: _Job, document: Document) -> Iterator[Statement]:
    source = document.source()
    yield RasReport(number=document.look or 0, who=document.who, source=source)
    yield Setting(name="backend", value="nccl", who=NOBODY, source=source)
    if report.version is not None:
        yield Setting(name="nccl", value=report.version, who=NOBODY, source=source)
    if job.size is not None and job.ranks is not None:
        yield WorldSize(size=job.size, who=NOBODY, source=source)
    if job.ranks and len(job.nodes) == 1 and document.who.host is None:
        for (_, pid), rank in job.ranks.items():
            who = Who(pid=pid, trust=Trust.NCCL_INIT)
            yield ProcessRank(rank=rank, who=who, source=source)


def _of_comm(comm: Comm, job: _Job, document: Document) -> Iterator[Fact]:
    members = [member for member in comm.members if member.rank < (comm.size or 0)]
    pen = _Pen(comm, job, document, _group(comm, members, job))
    for member in members:
        told = REMOTE if member.error.startswith(REMOTE) else member.error
        state = "remote" if told == REMOTE else "error" if told else member.state
        if state:
            yield pen.line(member, state, told)
    standings = _standings(comm, members)
    camps = _camps(standings)
    if len(camps) < 2:
        for standing in standings if comm.whole else ():  # to be compared with a later look
            yield from pen.track(standing, None, None)
    elif not _ordered(list(camps)):
        yield from _contradiction(pen, camps)
    else:
        yield from _late(pen, standings)


def _late(pen: _Pen, standings: Sequence[Standing]) -> Iterator[Fact]:
    """Tell how far each rank is; where only few are ahead, that these are."""
    least = min(standing.total for standing in standings)
    behind = sum(standing.total == least for standing in standings)
    if 2 * behind > len(standings):
        for standing in standings:
            if standing.total > least:
                yield pen.line(standing.member, "ahead", quote=_profile(standing.counts))
        return
    op = _the_op(standings)
    for standing in standings:
        call = None
        if standing.total > least:
            call = Call(op=op, seq=least + 1, state=CallState.SCHEDULED)
        else:
            yield pen.line(standing.member, "behind", quote=_profile(standing.counts))
        yield from pen.track(standing, least, call)


class _Pen:
    """Writes the facts of one communicator."""

    def __init__(self, comm: Comm, job: _Job, document: Document, group: Group) -> None:
        self.comm = comm
        self.job = job
        self.document = document
        self.group = group

    def line(self, member: Member, state: str, error: str = "", quote: str = "") -> LogLine:
        """Say something of one rank."""
        return _line(
            self.document,
            self.job.who(self.comm, member.rank, member.peer),
            state,
            member.quote or f"rank {member.rank}: {quote}",
            member.line if member.line is not None else self.comm.line,
            member.peer,
            comm=self.comm.name,
            number=str(member.rank),
            **({"error": error} if error else {}),
        )

    def track(
        self, standing: Standing, completed: int | None, call: Call | None
    ) -> Iterator[Track]:
        """Say how far one rank came, if it can be told who it is."""
        member = standing.member
        who = self.job.who(self.comm, member.rank, member.peer)
        if who != NOBODY:
            yield Track(
                who=who,
                group=self.group,
                kind="ras" if self.comm.whole else "ras-text",
                source=self.document.source(
                    member.line if member.line is not None else self.comm.line
                ),
                enqueued=standing.total,
                completed=completed,
                calls=(call,) if call is not None else (),
                look=self.document.look or 0,
            )


def _group(comm: Comm, members: Sequence[Member], job: _Job) -> Group:
    """Name the communicator's ranks of the job where all are known."""
    size = comm.size or 0
    if comm.hash in job.world:
        return Group(name=comm.name, ranks=tuple(range(size)))
    found = {member.rank: job.who(comm, member.rank, member.peer).rank for member in members}
    ranks = tuple(rank for n in range(size) if (rank := found.get(n)) is not None)
    return Group(name=comm.name, ranks=ranks if len(ranks) == size else None)


def _standings(comm: Comm, members: Sequence[Member]) -> list[Standing]:
    """Give the counts of each rank that answered, in operations told of all of them."""
    if comm.whole:
        told = [m for m in members if m.counts is not None]
        ops = {op for m in told for op in m.counts or {}}
        return [
            Standing(member=m, counts={op: (m.counts or {}).get(op, 0) for op in sorted(ops)})
            for m in told
        ]
    by_op: dict[str, list[Counted]] = defaultdict(list)
    for counted in comm.counted:
        by_op[counted.op].append(counted)
    present = _present(comm, members, by_op)
    if present is None:
        return []
    counts: dict[int, dict[str, int]] = {rank: {} for rank in present}
    for op, groups in by_op.items():
        listed = {m.rank: group.count for group in groups for m in group.ranks}
        others = [group for group in groups if not group.ranks]
        if len(others) > 1:
            return []  # half against half, and nobody is listed
        for rank in present:
            if rank in listed:
                counts[rank][op] = listed[rank]
            elif others:
                counts[rank][op] = others[0].count
    known = {member.rank: member for member in members}
    if len({tuple(sorted(own)) for own in counts.values()}) != 1:
        return []
    return [
        Standing(member=known.get(rank, Member(rank=rank)), counts=own)
        for rank, own in counts.items()
    ]


def _present(
    comm: Comm, members: Sequence[Member], by_op: Mapping[str, Sequence[Counted]]
) -> list[int] | None:
    """List the ranks that the counts are of; None where that cannot be told."""
    size = comm.size or 0
    away = {m.rank for m in members if m.state}
    for groups in by_op.values():
        number = sum(group.size for group in groups)
        if number == size:
            continue
        if number != size - len(away):
            return None
        return [rank for rank in range(size) if rank not in away]
    return list(range(size))


_Profile = tuple[int, ...]


def _camps(standings: Sequence[Standing]) -> dict[_Profile, list[Standing]]:
    camps: dict[_Profile, list[Standing]] = defaultdict(list)
    for standing in standings:
        camps[tuple(standing.counts[op] for op in sorted(standing.counts))].append(standing)
    return camps


def _ordered(profiles: Sequence[_Profile]) -> bool:
    """Tell whether of any two one has at least as many calls of every operation."""
    chain = sorted(profiles, key=sum)
    return all(
        all(a <= b for a, b in zip(one, other, strict=True))
        for one, other in itertools.pairwise(chain)
    )


def _the_op(standings: Sequence[Standing]) -> str:
    """Name the operation in which they differ, if it is one."""
    ops = list(standings[0].counts)
    differ = [op for op in ops if len({standing.counts[op] for standing in standings}) > 1]
    return differ[0] if len(differ) == 1 else ""


def _contradiction(pen: _Pen, camps: Mapping[_Profile, Sequence[Standing]]) -> Iterator[Fact]:
    """Tell of ranks that called different things: by their calls, where each made one more."""
    ops = list(next(iter(camps.values()))[0].counts)
    base = [min(counts) for counts in zip(*camps, strict=True)]
    if len(camps) == 2 and all(sum(profile) == sum(base) + 1 for profile in camps):
        for profile, same in camps.items():
            own = next(op for op, n, least in zip(ops, profile, base, strict=True) if n > least)
            call = Call(op=own, seq=sum(base) + 1, state=CallState.SCHEDULED)
            for standing in same:
                yield from pen.track(standing, sum(base), call)
        return
    for same in sorted(camps.values(), key=len):
        ranks = fold(standing.member.rank for standing in same)
        first = replace(same[0].member, quote=f"ranks {ranks}: {_profile(same[0].counts)}")
        yield pen.line(first, "diverged")


def _profile(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{op or 'operations'} {count}" for op, count in counts.items())


def _line(
    document: Document,
    who: Who,
    state: str,
    quote: str,
    line: int | None,
    peer: Peer = Peer(),  # noqa: B008 - frozen
    **more: str,
) -> LogLine:
    fields = {"state": state, "node": peer.node or "?", "gpu": peer.gpu or "?"}
    fields["process"] = str(peer.pid) if peer.pid is not None else "?"
    return LogLine(
        who=who,
        text=quote,
        source=document.source(line),
        matched=(RAS_LINE,),
        fields={**fields, **more},
    )

"""From a RAS report to facts: how far each rank came, and who is missing.

RAS counts what the host has launched, per operation. All ranks of a communicator launch the
same calls in one order, so whatever the moment, the counts of one rank are at least those of
another in every operation; where neither of two ranks is ahead in all, they called different
things. That holds for a job that moves as well. Being behind does not: see the ledger.
"""

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
from whyhang.collectors.ras.report import (
    REMOTE,
    Comm,
    Peer,
    RasDocument,
    RasMember,
    by_profile,
    counts_of,
    is_chain,
    one_op,
)


def facts(report: RasDocument, document: Document) -> Iterator[Fact]:
    """Yield the version, groups, tracks of ranks, and a line for each thing that is wrong."""
    job = _Job(report)
    yield from _statements(report, job, document)
    wrong = bool(report.lost)
    for lost in report.lost:
        who = job.who(None, None, lost.peer)
        yield _line(document, who, lost.state, lost.quote, lost.line, lost.peer)
    for comm in report.comms:
        if comm.size and comm.size <= MAX_RANKS:
            for fact in _Communicator(comm, job, document).facts():
                differs = isinstance(fact, Track) and fact.completed is not None
                wrong = wrong or isinstance(fact, LogLine) or differs
                yield fact
    if report.timeouts and report.timeouts_line is not None:
        text = f"Encountered {report.timeouts} communication timeouts"
        yield _line(document, NOBODY, "timeouts", text, report.timeouts_line)
    if report.empty_line is not None:
        text = "No communicator data collected!"
        yield _line(document, NOBODY, "none", text, report.empty_line)
    elif not wrong and (counted := [each for comm in report.comms for each in comm.counted]):
        text = "; ".join(f"{each.size} ranks at {each.op} {each.count}" for each in counted[:2])
        yield _line(document, NOBODY, "uneven", text, counted[0].line)
    elif not wrong and not report.cut:
        text = f"NCCL {report.version or '?'}: no errors, no warnings, equal counts"
        yield _line(document, NOBODY, "even", text, None)


class _Job:
    """Which rank of the job a rank of a communicator is."""

    def __init__(self, report: RasDocument) -> None:
        nodes: dict[int, set[str | None]] = defaultdict(set)
        for comm in report.comms:
            for member in comm.members:
                if member.peer.pid is not None:
                    nodes[member.peer.pid].add(member.peer.node)
        self._own = {pid for pid, on in nodes.items() if len(on) == 1}  # mean one process
        self.nodes = {node for on in nodes.values() for node in on if node is not None}
        self.size = _world_size(report)
        world = [c for c in report.comms if self.size is not None and c.size == self.size]
        self.ranks = _ranks(world)
        self.world = {comm.hash for comm in world} if self.ranks is not None else set()

    def who(self, comm: Comm | None, rank: int | None, peer: Peer) -> Who:
        """Say who a rank is; by its process where that alone tells."""
        number = rank if comm is not None and comm.hash in self.world else None
        if number is None and self.ranks is not None:
            number = self.ranks.get(peer.process)
        if number is not None:
            return Who(rank=number, trust=Trust.NCCL_INIT)
        if peer.pid in self._own:
            return Who(pid=peer.pid)
        return Who(label=f"process {peer.pid} on {peer.node}") if peer.pid is not None else NOBODY


def _world_size(report: RasDocument) -> int | None:
    """Return the number of ranks of the job, if some communicator spans all of it."""
    size = max((comm.size for comm in report.comms if comm.size), default=None)
    if size is None or report.gpus is not None:
        return size if size == report.gpus else None
    everyone = {m.peer.process for comm in report.comms for m in comm.members if m.peer.pid}
    widest = next(comm for comm in report.comms if comm.size == size)
    covers_all = everyone <= {member.peer.process for member in widest.members}
    return size if covers_all and size == len(widest.members) else None


def _ranks(world: Sequence[Comm]) -> dict[tuple[str | None, int | None], int] | None:
    """Return the rank of each process by the communicators of all; None where these disagree."""
    ranks: dict[tuple[str | None, int | None], int] = {}
    for comm in world:
        for member in comm.members:
            if member.peer.pid is None:
                continue
            if ranks.setdefault(member.peer.process, member.rank) != member.rank:
                return None
    return ranks if world else None


def _statements(report: RasDocument, job: _Job, document: Document) -> Iterator[Statement]:
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


class _Communicator:
    """Makes the facts of one communicator."""

    def __init__(self, comm: Comm, job: _Job, document: Document) -> None:
        self._comm = comm
        self._job = job
        self._document = document
        self._members = [member for member in comm.members if member.rank < (comm.size or 0)]
        self._group = self._named_group()

    def facts(self) -> Iterator[Fact]:
        """Yield the ranks that are gone or in error, then how far each rank came."""
        for member in self._members:
            error = REMOTE if member.error.startswith(REMOTE) else member.error
            state = "remote" if error == REMOTE else "error" if error else member.state
            if state:
                yield self._line(member, state, error)
        counts = counts_of(self._comm, self._members)
        profiles = by_profile(counts)
        if len(profiles) < 2:
            for own in counts if self._comm.whole else ():  # to be compared with a later look
                yield from self._track(own, None, None)
        elif is_chain(list(profiles)):
            yield from self._lagging(counts)
        else:
            yield from self._contradiction(profiles)

    def _lagging(self, counts: Sequence[RasMember]) -> Iterator[Fact]:
        """Yield how far each rank is; where only few are ahead, that these are."""
        least = min(own.total for own in counts)
        behind = sum(own.total == least for own in counts)
        if 2 * behind > len(counts):
            for own in counts:
                if own.total > least:
                    yield self._line(own, "ahead", quote=own.in_words)
            return
        for own in counts:
            call = None
            if own.total > least:
                call = Call(op=one_op(counts), seq=least + 1, state=CallState.SCHEDULED)
            else:
                yield self._line(own, "behind", quote=own.in_words)
            yield from self._track(own, least, call)

    def _contradiction(
        self, profiles: Mapping[tuple[int, ...], Sequence[RasMember]]
    ) -> Iterator[Fact]:
        """Yield who called different things: by their calls, where each made one more."""
        ops = sorted(next(iter(profiles.values()))[0].counts or ())
        base = [min(counts) for counts in zip(*profiles, strict=True)]
        if len(profiles) == 2 and all(sum(profile) == sum(base) + 1 for profile in profiles):
            for profile, same in profiles.items():
                op = next(op for op, n, least in zip(ops, profile, base, strict=True) if n > least)
                call = Call(op=op, seq=sum(base) + 1, state=CallState.SCHEDULED)
                for own in same:
                    yield from self._track(own, sum(base), call)
            return
        for same in sorted(profiles.values(), key=len):
            ranks = fold(own.rank for own in same)
            first = replace(same[0], quote=f"ranks {ranks}: {same[0].in_words}")
            yield self._line(first, "diverged")

    def _line(self, member: RasMember, state: str, error: str = "", quote: str = "") -> LogLine:
        """Say something of one rank."""
        return _line(
            self._document,
            self._job.who(self._comm, member.rank, member.peer),
            state,
            member.quote or f"rank {member.rank}: {quote}",
            member.line if member.line is not None else self._comm.line,
            member.peer,
            comm=self._comm.name,
            number=str(member.rank),
            **({"error": error} if error else {}),
        )

    def _track(self, own: RasMember, completed: int | None, call: Call | None) -> Iterator[Track]:
        """Say how far one rank came, if it is known who it is."""
        who = self._job.who(self._comm, own.rank, own.peer)
        if who != NOBODY:
            yield Track(
                who=who,
                group=self._group,
                kind="ras" if self._comm.whole else "ras-text",
                source=self._document.source(self._comm.line if own.line is None else own.line),
                enqueued=own.total,
                completed=completed,
                calls=(call,) if call is not None else (),
                look=self._document.look or 0,
            )

    def _named_group(self) -> Group:
        """Name the communicator's ranks of the job where all are known."""
        comm, size = self._comm, self._comm.size or 0
        if comm.hash in self._job.world:
            return Group(name=comm.name, ranks=tuple(range(size)))
        ranks = {m.rank: self._job.who(comm, m.rank, m.peer).rank for m in self._members}
        known = tuple(rank for n in range(size) if (rank := ranks.get(n)) is not None)
        return Group(name=comm.name, ranks=known if len(known) == size else None)


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

"""Log lines: what a line says, and whom it blames.

The patterns stand in the signatures; the reader of logs looks for all of them in one pass and
hands back the lines (``LogLine.matched`` holds the patterns). So a pattern's text is its name, and
there is no registry.
"""

import enum
import re
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    MAX_RANKS,
    GpuAddress,
    LogLine,
    OwnAddress,
    Record,
    SignOfLife,
    Trust,
    Who,
)
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.device import same_host
from whyhang.analyzer.job.records import GROUP_RANK, Member
from whyhang.analyzer.queries.cluster import ranks_on
from whyhang.analyzer.queries.evidence import cite_line
from whyhang.analyzer.queries.failures import CRASHES, raised_by
from whyhang.analyzer.queries.hits import about_same
from whyhang.analyzer.report import Collective

MAX_QUOTES = 6
MAX_DIGITS = 9


class Blames(enum.Enum):
    """Whom a line of a log points at."""

    SPEAKER = "speaker"  # the rank whose log says so (an exception, a segfault)
    NAMED = "named"  # the ranks, pids or hosts that the line names (groups rank, ranks, pid)
    HOST = "host"  # all ranks on the host that the line names (group node)
    ENDED = "ended"  # the ranks whose end the lines report; nobody where that may be an echo
    ZERO = "zero"  # rank 0, which the line does not name: only it can have done what was missing
    PEER = "peer"  # whom the send or receive that failed was with, as its traceback's source tells
    ROOT = "root"  # rank 0: several ranks fail at one and the same target, NCCL's bootstrap root
    OTHERS = "others"  # all ranks that do not say so, of as many as the line tells (group world)
    NOBODY = "nobody"  # no rank is to blame, or it cannot be known from this line


class Log(Record):
    """What a signature in TOML asks: some line matches one of the patterns.

    Patterns are ``regex`` syntax, searched anywhere in a line. Named groups become fields of
    the finding's title; ``rank``/``ranks`` (global, "1, 2"), ``pid``, ``op``, ``seq`` and
    ``group`` have a meaning. ``least`` is the number of distinct ranks that must say so, ``most``
    (0: any) how many may: what several ranks say is an effect of something else.
    ``ends_process``: who says it ends by it, so that the launcher's table of failures tells
    whose line it is, and who failed alike. A field ``among`` is the number of ranks among which a
    line counts: its ranks are named where these are all of the job; one in a field ``waiter`` is
    not to blame. ``adds`` explains values: of the field "xid" with value "79" the fields to add.
    A field ``pci`` names a GPU by its address, and so its ranks.
    A line with one of ``vetoes`` takes the hit back, if ``veto_same_rank`` only on its own rank.
    ``unless_goes_on``: lines do not count after which their log goes on with steps or results.
    """

    patterns: tuple[str, ...]
    blames: Blames = Blames.NOBODY
    least: int = 1
    most: int = 0
    ends_process: bool = False
    adds: dict[str, dict[str, dict[str, str]]] = {}
    vetoes: tuple[str, ...] = ()
    veto_same_rank: bool = False
    unless_goes_on: bool = False

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Fold all lines that match into one hit."""
        lines = case.job.lines_with(self.patterns)
        if self.unless_goes_on and lines:
            signs = {s.source.file: s.source.line or 0 for s in case.job.of(SignOfLife)}
            lines = [
                line for line in lines if (line.source.line or 0) > signs.get(line.source.file, 0)
            ]
        speakers = {line.who.rank for line in lines if line.who.rank is not None}
        if not lines or (self.least > 1 and len(speakers) < self.least):
            return ()
        if self.most and len(speakers) > self.most:
            return ()
        hit = self._hit(case, lines)
        by = Blames.SPEAKER if self.veto_same_rank else Blames.NOBODY
        vetoes = logged(case, *self.vetoes, blames=by)
        return () if any(about_same(hit, veto) for veto in vetoes) else (hit,)

    def _hit(self, case: Case, lines: list[LogLine]) -> Hit:
        waiters = {line.fields.get("waiter") for line in lines}
        blamed = [
            who
            for line in lines
            for who in self._blamed(case, line)
            if self.blames is not Blames.NAMED or str(who.rank) not in waiters
        ]
        if self.blames is Blames.HOST:
            nodes = (line.fields.get("node") for line in lines)
            blamed = [Who(rank=rank) for rank in ranks_on(case, nodes)]
        if self.blames is Blames.ENDED:
            blamed = _whose_end(case, lines)
        if self.blames is Blames.ZERO or (self.blames is Blames.ROOT and _names_root(lines)):
            blamed = [Who(rank=0)]
        if self.blames is Blames.PEER:
            blamed = _peer(case, lines)
        if self.blames is Blames.OTHERS:
            blamed = [Who(rank=rank) for rank in _others(lines)]
        if self.ends_process and (ranks := raised_by(case, lines)):
            blamed = [Who(rank=rank) for rank in ranks]
        members = {who: case.job.member_of(who) for who in blamed}
        first = min(lines, key=_when)
        fields = _place(members)
        for line in [first, *lines]:
            for key, value in line.fields.items():
                fields.setdefault(key, value)
        for key, words in self.adds.items():
            fields = {**words.get(fields.get(key, ""), {}), **fields}
        return Hit(
            members=tuple(sorted({m.id for m in members.values() if m is not None})),
            ranks=tuple(sorted(_strangers(members))),
            names_culprit=bool(blamed),
            evidence=tuple(cite_line(line) for line in _spread(lines)),
            collective=_collective(fields),
            fields={**fields, "times": str(sum(line.count for line in lines))},
            at=first.time,
        )

    def _blamed(self, case: Case, line: LogLine) -> Iterator[Who]:
        if self.blames is Blames.NAMED and (using := using_gpu(case, line)):
            yield from using
        elif self.blames is Blames.SPEAKER or (
            self.blames is Blames.NAMED and not {"rank", "ranks", "pid"} & line.fields.keys()
        ):
            yield line.who
        elif self.blames is Blames.NAMED and _counts_all(case, line):
            for rank in ranks_in(line.fields.get("rank", "") + "," + line.fields.get("ranks", "")):
                yield Who(rank=rank)
            if (pid := line.fields.get("pid", "")) and is_number(pid):
                yield Who(pid=int(pid), host=line.who.host)


def _counts_all(case: Case, line: LogLine) -> bool:
    """Return whether numbers of ranks in a line are those of the job, not of some group of it."""
    among = line.fields.get("among", "")
    return not among or (is_number(among) and int(among) == case.job.world_size)


_ADDRESS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.\d)?$", re.IGNORECASE)


def using_gpu(case: Case, line: LogLine) -> tuple[Who, ...]:
    """Return the ranks on the GPU whose address a line names, where its pid names none of them.

    Hosts of one make have the same addresses, so a line that names no host says nothing in a
    job of several.
    """
    bus = _ADDRESS.search(line.fields.get("pci", ""))
    pid = line.fields.get("pid", "")
    named = case.job.member_of(Who(pid=int(pid), host=line.who.host)) if pid else None
    if bus is None or named is not None:
        return ()
    address = ":".join(bus.groups()).lower()
    devices = [
        device
        for device in case.job.gpus.devices
        if device.now("bus") == address and same_host(device.host, line.who.host)
    ]
    numbers = {number for device in devices for number in device.members}
    for fact in case.job.of(GpuAddress):
        if fact.bus[-10:].lower() == address:
            member = case.job.member_of(fact.who)
            if member is not None and same_host(member.host, line.who.host):
                numbers.add(member.id)
    members = [case.member(number) for number in sorted(numbers)]
    if line.who.host is None and len({member.host for member in members}) > 1:
        return ()
    return tuple(
        Who(rank=member.rank, pid=member.pid, host=member.host)
        for member in members
        if member.rank is not None or member.pid is not None
    )


def _whose_end(case: Case, lines: Iterable[LogLine]) -> list[Who]:
    """Return the ranks whose end these lines report: one, those that crashed, or some killed ones.

    Several exit codes, or the killing of all, may be what the end of one has brought. Lines that
    report no rank's end are of the one that was killed, if only one was.
    """
    places = {(line.source.file, line.source.line) for line in lines}
    ended = {
        exit_.who.rank: exit_
        for exit_ in case.job.exits
        if exit_.who.rank is not None and (exit_.source.file, exit_.source.line) in places
    }
    if not ended:
        killed = [
            row.who
            for row in case.job.exits
            if row.signal == signal.SIGKILL and row.who.rank is not None
            if row.who.trust > Trust.INFERRED
        ]
        return killed if len({who.rank for who in killed}) == 1 else []
    signals = {exit_.signal for exit_ in ended.values()}
    ranks_of_job = case.job.world_size or max(ended, default=0) + 1  # at least
    some_killed = signals == {signal.SIGKILL} and len(ended) < ranks_of_job
    known = len(ended) == 1 or signals <= CRASHES or some_killed
    return [exit_.who for exit_ in ended.values()] if known else []


def _peer(case: Case, lines: Sequence[LogLine]) -> list[Who]:
    """Return the rank with which the calls were in which these lines were raised, if it is one."""
    speakers = {(line.source.file, line.who.rank) for line in lines}
    peers = {
        call.peer
        for track in case.job.tracks
        if track.kind == "stack" and (track.source.file, track.who.rank) in speakers
        for call in track.calls
    }
    peers = peers - {None} or _at_addresses(case, lines)
    return [Who(rank=peer) for peer in peers if peer is not None and len(peers) == 1]


_PEER_ADDRESS = re.compile(r"\[(?P<host>\d{1,3}(?:\.\d{1,3}){3})\](?::(?P<port>\d{1,5}))?")


def _at_addresses(case: Case, lines: Sequence[LogLine]) -> set[int | None]:
    """Return the ranks that have said to be at the addresses in these lines, which is not theirs.

    Where several ranks share an address, the port has to be theirs as well.
    """
    told: dict[str, set[tuple[int | None, int | None]]] = defaultdict(set)
    for fact in case.job.of(OwnAddress):
        told[fact.address.host].add((fact.who.rank, fact.address.port))
    ranks: set[int | None] = set()
    for line in lines:
        for match in _PEER_ADDRESS.finditer(line.text):
            there = told.get(match["host"], set())
            if len(there) > 1:
                there = {one for one in there if match["port"] and one[1] == int(match["port"])}
            ranks |= {rank for rank, _ in there}
    return ranks - {line.who.rank for line in lines}


def _others(lines: Iterable[LogLine]) -> Iterable[int]:
    """Return all ranks but those that say so (group ``member``), or but 0 where it counts itself.

    Nobody, where there are more lines than numbers (two have one number, or lines were not kept),
    or the file is one rank's own.
    """
    lines = tuple(lines)
    counts = {(line.fields.get("joined"), line.fields.get("world", "")) for line in lines}
    joined, world = next(iter(counts))
    if len(counts) > 1 or not is_number(world) or int(world) > MAX_RANKS:
        return ()
    if joined is not None:
        return range(1, int(world) if joined == "1" else 1)
    came = {line.fields.get("member", "") for line in lines}
    own = any(line.who.trust is Trust.FILE_NAME for line in lines)
    twice = sum(line.count for line in lines) > len(came)
    if own or twice or len({line.source.file for line in lines}) > 1:
        return ()
    return sorted(set(range(int(world))) - {int(rank) for rank in came if is_number(rank)})


def _names_root(lines: Iterable[LogLine]) -> bool:
    """Return whether several ranks failed at one target, and none of them was rank 0 itself."""
    lines = tuple(lines)
    targets = {(line.fields.get("peer"), line.fields.get("port")) for line in lines}
    speakers = {(line.who.rank, line.who.host, line.who.pid) for line in lines}
    is_root = any(line.who.rank == 0 for line in lines)
    return len(targets) == 1 and len(speakers) > 1 and not is_root


def _place(members: Mapping[Who, Member | None]) -> dict[str, str]:
    """Return the one place in groups that is all that is known of who is blamed, as "who"."""
    labels = {
        who.label or "" for who in members if who.rank is None and GROUP_RANK.match(who.label or "")
    }
    return {"who": next(iter(labels))} if len(labels) == 1 and not any(members.values()) else {}


def _strangers(members: Mapping[Who, Member | None]) -> set[int]:
    """Ranks that a line names and of which there is no evidence at all: often the dead ones."""
    return {who.rank for who, m in members.items() if m is None and who.rank is not None}


def logged(case: Case, *patterns: str, blames: Blames = Blames.NOBODY) -> tuple[Hit, ...]:
    """Return one hit for all log lines that match a pattern, if any do; see ``Log``."""
    return Log(patterns=patterns, blames=blames)(case)


def ranks_in(text: str) -> tuple[int, ...]:
    """Read a list of ranks as logs write it: "1, 2, 5" or "4"."""
    return tuple(int(word) for word in text.replace(",", " ").split() if is_number(word))


def is_number(word: str) -> bool:
    """Return whether a word is a rank or pid, and not only digits in a line that lies."""
    return word.isascii() and word.isdigit() and len(word) < MAX_DIGITS


def _when(line: LogLine) -> tuple[float, str, int]:
    return (line.time or float("inf"), line.source.file, line.source.line or 0)


def _spread(lines: Iterable[LogLine]) -> list[LogLine]:
    """Pick few lines to quote: the first of each rank before second ones."""
    seen: set[object] = set()
    first: list[LogLine] = []
    rest: list[LogLine] = []
    for line in sorted(lines, key=_when):
        key = line.who.rank if line.who.rank is not None else (line.who.pid, line.text)
        (rest if key in seen else first).append(line)
        seen.add(key)
    return (first + rest)[:MAX_QUOTES]


def _collective(fields: dict[str, str]) -> Collective | None:
    op = fields.get("op")
    if not op:
        return None
    seq = fields.get("seq", "")
    return Collective(
        op=op.lower(), group=fields.get("group"), seq=int(seq) if seq.isdigit() else None
    )

"""NCCL's own lines about communicators: who is which rank, who began to set one up, who is done.

The shapes are those of NCCL 2.7 to 2.30 (``init.cc``). A rank in these lines counts within its
communicator. It is taken for the global one only in the largest communicator, and only where
no two processes have the same number in communicators of that size. The pointer of a
communicator is a process's own; ``commId``, where printed, is the same on all ranks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import regex

from whyhang.analyzer.facts import (
    MAX_RANKS,
    NOBODY,
    Call,
    CallState,
    Fact,
    GpuAddress,
    Group,
    ProcessRank,
    Setting,
    Source,
    Track,
    Trust,
    Variable,
    Who,
    WorldSize,
    replace,
)
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

BUS = r"busId (?P<bus>[0-9a-f]{4,16})\b"
COMM_ID = r"commId (?P<id>0x[0-9a-f]+)"
SPLIT = (
    r"parent (?P<parent>\S+)(?: (?:splitCount|childCount) (?P<count>\d+))? color (?P<color>-?\d+)"
)
# Who speaks, by "graph/connect.cc": the middle of a tree; or by "proxy.cc". Lines of channels tell
# as much, but a log may hold nothing else: to take each apart would double the time of a search.
MAX_COMMS = 200_000


@dataclass
class _Comm:
    """One communicator of one process."""

    who: Who
    pointer: str
    rank: int
    size: int
    source: Source
    order: int  # n-th communicator of this size in its process
    name: str | None = None
    begun: bool = False
    done: bool = False

    @property
    def key(self) -> tuple[str, int]:
        """Return what tells communicators apart over all ranks, as far as that can be."""
        return (self.name or f"nccl communicator {self.order} of {self.size} ranks", self.size)


_Places = dict[tuple[str | None, int], dict[int, Source]]
"""The ranks of each process, by its host and pid."""


class NcclReader(LineReader):
    """Collects communicators, and what they say of ranks."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._comms: list[_Comm] = []
        self._orders: Counter[tuple[Who, int]] = Counter()
        self._open: dict[tuple[str | None, int | None, str], _Comm] = {}
        self._version: dict[str, Source] = {}
        self._notes: dict[tuple[str | None, int | None, int | None, str], Setting | Variable] = {}
        self._buses: dict[tuple[str | None, int], GpuAddress] = {}
        self._world: set[tuple[str, int]] = set()  # communicators of the whole job
        self._placed: _Places = {}
        self._members: defaultdict[int, _Places] = defaultdict(dict)  # by size

    @wants(
        r"comm (?P<comm>0x[0-9a-f.]+) rank (?P<rank>\d+) n[Rr]anks (?P<size>\d+)"
        r" cudaDev (?P<device>\d+).{0,200}? ?- "
        r"(?P<event>Init START|Init COMPLETE|Destroy COMPLETE|Abort COMPLETE)"
    )
    def on_init(self, line: FoundLine, match: Match) -> None:
        """Note the state of a communicator."""
        event = match["event"]
        pid = line.who.pid
        if pid is not None and (detail := regex.search(BUS, match[0])):
            bus, quote = _address(detail["bus"]), detail[0]
            gpu = GpuAddress(
                bus=bus,
                quote=quote,
                device=int(match["device"]),
                who=line.who,
                source=line.source,
            )
            self._buses.setdefault((line.who.host, pid), gpu)
        key = (line.who.host, pid, match["comm"])
        comm = self._open.get(key)
        if comm is None or (event == "Init START" and comm.begun):  # the pointer is used again
            if not event.startswith("Init"):
                self._note_place(line, match)
                return
            if len(self._comms) >= MAX_COMMS:
                return
            comm = self._new(line, match)
            self._open[key] = comm
        if detail := regex.search(COMM_ID, match[0]):
            comm.name = f"nccl {detail['id']}"
        elif detail := regex.search(SPLIT, match[0]):
            parent = self._open.get((line.who.host, line.who.pid, detail["parent"]))
            above = parent.key[0] if parent is not None else "nccl"
            comm.name = f"{above} split {detail['count'] or comm.order} color {detail['color']}"
        comm.begun = comm.begun or event == "Init START"
        comm.done = comm.done or event == "Init COMPLETE" or comm.size == 1  # waits for nobody
        if not event.startswith("Init"):
            del self._open[key]

    def _new(self, line: FoundLine, match: Match) -> _Comm:
        rank, size = int(match["rank"]), int(match["size"])
        order = self._orders[line.who, size]
        comm = _Comm(line.who, match["comm"], rank, size, line.source, order)
        self._orders[line.who, size] += 1
        self._comms.append(comm)
        return comm

    @wants(r"NCCL version (?P<version>\d+\.\d+(?:\.\d+)?)")
    def on_version(self, line: FoundLine, match: Match) -> None:
        """Note NCCL's version, and whose it is."""
        self._version.setdefault(match["version"], line.source)
        self._note(Setting(name="nccl", value=match["version"], who=line.who, source=line.source))

    @wants(r"NCCL INFO cudaDriverVersion (?P<version>\d{4,6})")
    def on_driver(self, line: FoundLine, match: Match) -> None:
        """Note which CUDA the driver knows, and whose driver it is."""
        value = f"CUDA {int(match['version']) // 1000}.{int(match['version']) % 1000 // 10}"
        self._note(Setting(name="driver", value=value, who=line.who, source=line.source))

    @wants(r"NCCL INFO (?P<name>NCCL_[A-Z0-9_]+) set by environment to (?P<value>[^\s\']{1,200})")
    def on_setting(self, line: FoundLine, match: Match) -> None:
        """Note a variable that NCCL has read."""
        value = match["value"].rstrip(".")
        self._note(Variable(name=match["name"], value=value, who=line.who, source=line.source))

    def _note(self, fact: Setting | Variable) -> None:
        """Note what is compared over ranks; see ``whyhang.analyzer.fingerprints``."""
        who = fact.who
        if (who.pid is not None or who.rank is not None) and len(self._notes) < MAX_COMMS:
            self._notes.setdefault((who.host, who.pid, who.rank, fact.name), fact)

    @wants(
        r"rank (?P<rank>\d+) n[Rr]anks (?P<size>\d+) nNodes (?P<nodes>\d+)"
        r" localRanks \d+ localRank \d+"
    )
    def on_place(self, line: FoundLine, match: Match) -> None:
        """Note whether a communicator spans hosts, and the rank that a process has in it."""
        if int(match["nodes"]) > 1:
            self._file.one_host = False
        self._note_place(line, match)

    def _note_place(self, line: FoundLine, match: Match) -> None:
        if line.who.pid is not None and len(self._members) < MAX_COMMS:
            ranks = self._members[int(match["size"])].setdefault((line.who.host, line.who.pid), {})
            ranks.setdefault(int(match["rank"]), line.source)

    @wants(r"(?:Trees \[0\] [-/\d]+->(?P<middle>\d+)->|\[Proxy Service (?P<service>\d+)\] )")
    def on_placed(self, line: FoundLine, match: Match) -> None:
        """Note the rank that a process has in a tree, or as a proxy."""
        if line.who.pid is not None and len(self._placed) < MAX_COMMS:
            ranks = self._placed.setdefault((line.who.host, line.who.pid), {})
            ranks.setdefault(int(match["middle"] or match["service"]), line.source)

    def facts(self) -> Iterator[Fact]:
        """Yield ranks of processes, the groups, and how far each rank came in setting them up."""
        for version, source in self._version.items():
            yield Setting(name="nccl", value=version, who=NOBODY, source=source)
        if self._comms or self._version:
            some = next(iter(self._version.values()), None) or self._comms[0].source
            yield Setting(name="backend", value="nccl", who=NOBODY, source=some)
        if len({comm.who.host for comm in self._comms if comm.who.host}) > 1:
            self._file.one_host = False
        yield from self._ranks()
        yield from self._buses.values()
        for fact in self._notes.values():
            yield replace(fact, who=self._file.resolve(fact.who))
        groups = self._groups()
        yield from groups.values()
        for comm in self._comms:
            group = groups[comm.key]
            if comm.who.pid is not None:
                key = (comm.who.host, comm.who.pid, comm.pointer)
                self._file.comms[key] = group
            yield self._track(comm, group)

    def _ranks(self) -> Iterator[Fact]:
        """Yield the ranks of the largest communicator, if it can be the whole job."""
        if not self._comms:
            yield from self._ranks_by_place()
        size = max((comm.size for comm in self._comms), default=0)
        world = [comm for comm in self._comms if comm.size == size]
        holders: dict[int, set[tuple[str | None, int | None]]] = {}
        for comm in world:
            holders.setdefault(comm.rank, set()).add((comm.who.host, comm.who.pid))
        if not world or any(len(processes) > 1 for processes in holders.values()):
            return  # groups beside each other, or a restart: both look the same
        self._world.update(comm.key for comm in world)
        yield WorldSize(size=size, who=NOBODY, source=world[0].source)
        for comm in world:
            pid, host = comm.who.pid, comm.who.host
            if pid is None or (host, pid) in self._file.pids:
                continue
            self._file.pids[host, pid] = comm.rank
            who = Who(pid=pid, host=host, trust=Trust.NCCL_INIT)
            yield ProcessRank(rank=comm.rank, who=who, source=comm.source)

    def _ranks_by_place(self) -> Iterator[Fact]:
        """Yield the ranks in the largest communicator, or in trees where there is but one.

        With several of them a process has several ranks, or a rank several processes.
        """
        placed = self._members[max(self._members)] if self._members else self._placed
        ranks = [rank for sources in placed.values() for rank in sources]
        if len(ranks) > len(placed) or len(set(ranks)) < len(ranks):
            return
        for (host, pid), sources in placed.items():
            for rank, source in sources.items():
                self._file.pids.setdefault((host, pid), rank)
                who = Who(pid=pid, host=host, trust=Trust.NCCL_INIT)
                yield ProcessRank(rank=rank, who=who, source=source)

    def _groups(self) -> dict[tuple[str, int], Group]:
        """Return the groups, with their global ranks where all are known."""
        members: dict[tuple[str, int], dict[int, int]] = {}
        for comm in self._comms:
            who = self._file.resolve(comm.who)
            ranks = members.setdefault(comm.key, {})
            if comm.key in self._world:
                if len(ranks) < comm.size <= MAX_RANKS:
                    ranks.update((rank, rank) for rank in range(comm.size))
            elif who.rank is not None:
                ranks[comm.rank] = who.rank
        return {
            (name, size): Group(
                name=name,
                ranks=tuple(ranks[n] for n in range(size)) if len(ranks) == size else None,
            )
            for (name, size), ranks in members.items()
        }

    def _track(self, comm: _Comm, group: Group) -> Track:
        state = CallState.COMPLETED if comm.done else CallState.STARTED
        who = self._file.resolve(comm.who)
        if who.rank is None and comm.who.pid is None:
            who = replace(who, label=who.label or f"rank {comm.rank} of {group.name}")
        return Track(
            who=who,
            group=group,
            kind="nccl-init",
            source=comm.source,
            enqueued=1,
            completed=1 if comm.done else 0,
            calls=(Call(op="comm_init", seq=1, state=state),),
        )


def _address(bus: str) -> str:
    """Write NCCL's number of a PCI address ("1b000": bus 1b, device 00, function 0) in full."""
    digits = bus.zfill(9)
    return f"{digits[:-5]}:{digits[-5:-3]}:{digits[-3:-1]}"

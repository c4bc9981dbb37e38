"""What a RAS report says, whichever format it came in, and how the counts of ranks compare.

Rank numbers count within a communicator; a node is its bootstrap address and a pid that of
its own pid namespace, as NCCL prints them.
"""

import itertools
from collections.abc import Mapping, Sequence

from whyhang.analyzer.facts import Record, grouped, replace

DEAD, UNRESPONSIVE = "dead", "unresponsive"
STARTING, LEAVING, ABORTED = "starting", "leaving", "aborted"
LEFT = "left"
"""How a rank or process is. LEFT: its process answers and is not in the communicator."""

STATUS = {
    "NOCOMM": LEFT,
    "UNKNOWN": LEFT,  # 2.24 and 2.25
    "INIT": STARTING,
    "RUNNING": "",
    "FINALIZE": LEAVING,
    "ABORT": ABORTED,
}

REMOTE = "Remote process error"


class Peer(Record):
    """A process: its node, pid and GPU as printed; None and "" where not told."""

    node: str | None = None
    pid: int | None = None
    gpu: str = ""

    @property
    def process(self) -> tuple[str | None, int | None]:
        """What makes it one process of the job."""
        return (self.node, self.pid)


NOBODY = Peer()


class RasMember(Record):
    """One rank of a communicator. ``counts`` are launches by operation, where all are told.

    ``state`` is one of the words above, "" while it runs; ``error`` is NCCL's word for one.
    """

    rank: int
    peer: Peer = NOBODY
    counts: dict[str, int] | None = None
    state: str = ""
    error: str = ""
    quote: str = ""
    line: int | None = None

    @property
    def total(self) -> int:
        """How many launches are told."""
        return sum((self.counts or {}).values())

    @property
    def in_words(self) -> str:
        """The launches, by operation."""
        counts = (self.counts or {}).items()
        return ", ".join(f"{op or 'operations'} {count}" for op, count in counts)


class Counted(Record):
    """Ranks of a communicator that launched ``count`` of an operation.

    ``op`` is "" where one counter holds all operations (NCCL 2.24 and 2.25). ``ranks`` lists
    them where the report does; ``size`` is how many there are.
    """

    op: str
    count: int
    size: int
    ranks: tuple[RasMember, ...]
    line: int


class Comm(Record):
    """One communicator. ``size`` is how many ranks it was made for, where told.

    ``members`` are the ranks that the report lists: all of them in JSON (``whole``), the odd
    ones in text, with ``counted`` beside them.
    """

    hash: int
    size: int | None
    members: tuple[RasMember, ...]
    counted: tuple[Counted, ...] = ()
    whole: bool = False
    line: int | None = None

    @property
    def name(self) -> str:
        """Name it as NCCL's own log does (``commId``), so that the two meet."""
        return f"nccl 0x{self.hash:x}"


class Lost(Record):
    """A process that the report says is missing, whatever communicators it is in."""

    peer: Peer
    state: str
    quote: str
    line: int


class RasDocument(Record):
    """One answer of RAS. ``cut``: it has no end. ``processes`` and ``gpus`` are of the job."""

    comms: tuple[Comm, ...]
    lost: tuple[Lost, ...] = ()
    version: str | None = None
    processes: int | None = None
    gpus: int | None = None
    timeouts: int = 0
    timeouts_line: int | None = None
    cut: bool = False
    empty_line: int | None = None  # where it says that there are no communicators


def counts_of(comm: Comm, members: Sequence[RasMember]) -> list[RasMember]:
    """Return each rank that answered, with its counts in operations known of all of them."""
    known = {member.rank: member for member in members}
    counts: dict[int, dict[str, int]]
    if comm.whole:
        counts = {m.rank: m.counts for m in members if m.counts is not None}
        ops = sorted({op for own in counts.values() for op in own})
        counts = {rank: {op: own.get(op, 0) for op in ops} for rank, own in counts.items()}
    else:
        by_op = grouped(comm.counted, lambda counted: counted.op)
        counts = {rank: {} for rank in _answered(comm, members, by_op)}
        for op, groups in by_op.items():
            listed = {member.rank: group.count for group in groups for member in group.ranks}
            others = [group.count for group in groups if not group.ranks]
            if len(others) > 1:
                return []  # half against half, and nobody is listed
            for rank, own in counts.items():
                if rank in listed or others:
                    own[op] = listed[rank] if rank in listed else others[0]
        if len({tuple(sorted(own)) for own in counts.values()}) != 1:
            return []
    return [
        replace(known.get(rank, RasMember(rank=rank)), counts=own) for rank, own in counts.items()
    ]


def _answered(
    comm: Comm, members: Sequence[RasMember], by_op: Mapping[str, Sequence[Counted]]
) -> Sequence[int]:
    """Return the ranks that the counts of a text are of; none where that cannot be known."""
    size = comm.size or 0
    away = {member.rank for member in members if member.state}
    numbers = {sum(group.size for group in groups) for groups in by_op.values()} - {size}
    if not numbers:
        return range(size)
    if numbers == {size - len(away)}:
        return [rank for rank in range(size) if rank not in away]
    return ()


def by_profile(ranks: Sequence[RasMember]) -> dict[tuple[int, ...], list[RasMember]]:
    """Put the ranks with equal counts together, under their counts by operation in order."""
    return grouped(ranks, lambda rank: tuple(n for _, n in sorted((rank.counts or {}).items())))


def is_chain(profiles: Sequence[tuple[int, ...]]) -> bool:
    """Return whether of any two one has at least as many launches of every operation."""
    return all(
        all(a <= b for a, b in zip(one, other, strict=True))
        for one, other in itertools.pairwise(sorted(profiles, key=sum))
    )


def one_op(ranks: Sequence[RasMember]) -> str:
    """Return the operation in which ranks differ, "" if it is not one."""
    counts = [rank.counts or {} for rank in ranks]
    differ = [op for op in counts[0] if len({own[op] for own in counts}) > 1]
    return differ[0] if len(differ) == 1 else ""

"""What a RAS report says, whichever format it came in.

Rank numbers count within a communicator; a node is its bootstrap address and a pid that of
its own pid namespace, as NCCL prints them.
"""

from __future__ import annotations

from whyhang.analyzer.facts import Record

DEAD, UNRESPONSIVE, LEFT, STARTING, LEAVING, ABORTED = (
    "dead",
    "unresponsive",
    "left",
    "starting",
    "leaving",
    "aborted",
)
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


class Member(Record):
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


class Counted(Record):
    """Ranks of a communicator that launched ``count`` of an operation.

    ``op`` is "" where one counter holds all operations (NCCL 2.24 and 2.25). ``ranks`` lists
    them where the report does; ``size`` is how many there are.
    """

    op: str
    count: int
    size: int
    ranks: tuple[Member, ...]
    line: int


class Comm(Record):
    """One communicator. ``size`` is how many ranks it was made for, where told.

    ``members`` are the ranks that the report lists: all of them in JSON (``whole``), the odd
    ones in text, with ``counted`` beside them.
    """

    hash: int
    size: int | None
    members: tuple[Member, ...]
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


class Report(Record):
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

"""Facts of one line each: what a log, a process or a report states about a rank or the job.

As all facts, each record says whom it is about and where it was read. A record is about the job
as a whole where its ``who`` names nobody. ``Job.of`` gives those of a kind.
"""

import enum
from typing import Literal, TypeAlias, TypeVar

from whyhang.analyzer.facts.base import Record, Sourced

SettingName: TypeAlias = Literal[
    "address-family", "backend", "cuda", "driver", "launcher", "nccl", "network", "torch"
]
"""What a setting is of; of "nccl", "torch", "cuda" and "driver" it is the version.

"network" is what NCCL talks through between hosts: "IB", "Socket", a plugin.
"""

Topic: TypeAlias = Literal[
    "world", "version", "communicator", "sizes", "start", "inputs", "settings"
]
"""What ranks have to agree on that a line of a program may tell."""


class Statement(Sourced):
    """The base of these facts."""


S = TypeVar("S", bound=Statement)


class Setting(Statement):
    """What a rank or the job runs with."""

    name: SettingName
    value: str


class Variable(Statement):
    """A variable of the environment that NCCL says it has read, or that was printed."""

    name: str
    value: str


class PrintedValue(Statement):
    """A value in a line that ranks print, where all should print the same.

    ``name`` is what stands around it, with "…" in its place and "#" for other numbers; ``topic`` is
    what the line is about, ``text`` the line.
    """

    name: str
    value: str
    topic: Topic
    text: str


class Deed(enum.Enum):
    """What a person says that a rank does, or does not."""

    ABSENT = "absent"  # did not come to something
    LEFT = "left"  # went away, or skipped something
    ENDED = "ended"  # crashed, or was killed
    ODD = "odd"  # all others do what it does not
    AWAITED = "awaited"  # others wait for it
    CONTRASTED = "contrasted"  # of many others something else is written
    AHEAD = "ahead"  # made calls that the others did not
    WAITS = "waits"
    WORKS = "works"  # at something of its own
    RAN_OUT = "ran out"  # of data, and left the loop
    IN_FILES = "in files"  # stands in a read or a write
    SPINS = "spins"
    SLOW = "slow"  # at its own work, beside the others
    OUT_OF_MEMORY = "out of memory"  # of its GPU


class Account(Statement):
    """What a person writes of a rank (NOBODY: of one of them): ``text`` holds the sentence."""

    deed: Deed
    text: str


Subject: TypeAlias = Literal[
    "call of MPI",
    "checkpoint",
    "collective call",
    "coordinator",
    "crossed groups",
    "dataloader",
    "dataloader worker",
    "debugger",
    "fork",
    "gpu fault",
    "gpu memory",
    "groups",
    "host memory",
    "hostname",
    "in order",
    "interface",
    "library",
    "lock",
    "loop",
    "missing workers",
    "nvlink",
    "other calls",
    "peer access",
    "port",
    "processes",
    "rdma",
    "recompiling",
    "same rank",
    "save",
    "service",
    "shared memory",
    "skipped call",
    "slowness",
    "stale lock",
    "start-up",
    "storage",
    "uneven inputs",
    "unpaired sends",
    "unused parameters",
    "world size",
]
"""What the trouble of a job is about."""


class Trouble(Statement):
    """What a person writes that the trouble is about; ``text`` holds the sentence."""

    subject: Subject
    text: str


class Library(Statement):
    """A shared library in the memory of a process.

    ``build`` is the build id in its ELF header. Where that cannot be read, ``inode`` is the file's,
    as "device/inode". ``deleted``: the file has been removed or replaced since it was loaded.
    """

    name: str
    path: str
    deleted: bool = False
    build: str | None = None
    inode: str | None = None

    def __str__(self) -> str:
        gone = " (deleted)" if self.deleted else ""
        identity = f"build {self.build}" if self.build else f"inode {self.inode}"
        return f"{self.path}{gone}, {identity}"


class WorldSize(Statement):
    """How many ranks the job has."""

    size: int


class CommunicatorSize(Statement):
    """How many ranks the largest communicator has that a log tells of: at most the job's."""

    size: int


class ProcessRank(Statement):
    """The process ``who`` is this rank."""

    rank: int


class Speaker(Statement):
    """Who prints into a log, as the labels of its first lines tell."""


class GroupSize(Statement):
    """Along this axis ("TP", "PP", "DP") the groups of ranks have so many members each."""

    axis: str
    size: int


class GpuAddress(Statement):
    """The PCI address of the GPU that a rank uses, as "0000:1b:00"; ``quote`` as it was printed.

    ``device`` is the number that CUDA gives it in that process.
    """

    bus: str
    quote: str = ""
    device: int | None = None


class NcclDevice(Statement):
    """The number of the GPU that the process ``who`` uses, and its rank where its lines tell it."""

    device: int
    rank: int | None = None


class Address(Record):
    """Where ranks meet at the start: host and port of a store, or the path of a shared file."""

    host: str = ""
    port: int | None = None
    file: str | None = None

    def __str__(self) -> str:
        if self.file is not None:
            return f"file://{self.file}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClockOffset(Statement):
    """By how many seconds the clock of a host was ahead of that of rank 0, in its log.

    The times of its facts have been put right by that.
    """

    seconds: float


class OwnAddress(Statement):
    """The address at which the rank ``who`` can be reached, as it says itself."""

    address: Address


class InitArguments(Statement):
    """What a rank was given for ``init_process_group``, as far as the source tells."""

    address: Address | None = None
    rank: int | None = None
    world_size: int | None = None


class RootArgument(Statement):
    """The rank that a broadcast, scatter, gather or reduce was given as its root.

    ``in_default_group``: the call was given no group.
    """

    op: str
    root: int
    in_default_group: bool = False


class NcclPhase(enum.IntEnum):
    """How far a process is in setting up its first NCCL communicator, in order."""

    ABSENT = -1  # of its lines in a log of its own none is NCCL's
    INTERFACE = 0
    NETWORK = 1
    BOOTSTRAP = 2
    TOPOLOGY = 3
    CHANNELS = 4
    CONNECTING = 5
    CONNECTED = 6
    COMPLETE = 7


class NcclSetup(Statement):
    """The furthest phase of a process, with the line that shows it.

    ``transport`` is that of its last channel ("P2P/IPC", "NET/IB/0"), ``interface`` and ``address``
    are those over which it means to find the other ranks; each empty where it is not told.
    """

    phase: NcclPhase
    text: str
    transport: str = ""
    interface: str = ""
    address: str = ""


class NetChannel(Statement):
    """One end of a connection of NCCL over the network: the ``sender``'s, or the receiver's.

    Ranks are those within the communicator, ``devices`` the GPUs of sender and receiver as printed
    behind them, ``via`` is the way ("NET/IB/0/GDRDMA").
    """

    text: str
    sender: int
    receiver: int
    devices: tuple[str, str]
    sends: bool
    via: str


class RootCause(Statement):
    """The rank ``who`` is the one that a launcher takes for the root cause."""


class StartedAgain(Statement):
    """A command that starts ranks stands in a log once more: what is above is of another run."""


class RasReport(Statement):
    """A report of NCCL RAS was had; ``number`` counts those of one live run from 0."""

    number: int


class UnsafeDump(Statement):
    """A recorder dump asks to run ``code`` when it is unpickled, as "posix.system"."""

    code: str

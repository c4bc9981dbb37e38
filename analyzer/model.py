"""Facts: what a collector can say about one rank, with where it was read.

Every record is frozen and carries its provenance. Collectors yield these and nothing
else; the analysis consumes these and nothing else. ``None`` always means "not known",
never "none" or zero. Ranks are global ranks, times are seconds since the epoch (UTC),
frames are innermost first, unless a field says otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    # Type checkers take every subclass of a frozen Struct for mutable unless it says
    # ``frozen`` again. They see this plain base instead; at run time options are inherited.
    @dataclass_transform(frozen_default=True, kw_only_default=True)
    class Record:
        """The base of all facts: frozen, compared by value, built by keyword."""
else:

    class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
        """The base of all facts: frozen, compared by value, built by keyword."""


R = TypeVar("R", bound=Record)


def replace(record: R, **changes: object) -> R:
    """Copy a record with some fields changed."""
    copy: R = msgspec.structs.replace(record, **changes)  # type: ignore[type-var]
    return copy


class Source(Record):
    """Where a fact was read: a path as the user knows it (or inside the bundle) and a line."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Trust(enum.IntEnum):
    """How a rank number was learnt, most trusted last. Disagreement is itself a finding."""

    NONE = 0
    INFERRED = 1  # order of children, elimination
    FILE_NAME = 2  # rank3.txt, attempt_0/3/stderr.log
    PREFIX = 3  # [rank3]: in front of the line
    CONTENT = 4  # the dump itself says so
    NCCL_INIT = 5  # "comm 0x… rank 3 nranks 8" of this pid
    FLIGHT_RECORDER = 6
    ENVIRONMENT = 7  # RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK of the process


class Who(Record):
    """Whom a fact is about, as far as its source tells.

    ``label`` is what a person would call it when neither rank nor pid is known
    ("node48", "DP0"). ``local_rank`` is the rank within the host.
    """

    rank: int | None = None
    trust: Trust = Trust.NONE
    host: str | None = None
    pid: int | None = None
    local_rank: int | None = None
    label: str | None = None


NOBODY = Who()


class Frame(Record):
    """One stack frame. ``file`` is the path as printed; ``native`` frames are C or C++."""

    function: str
    file: str
    line: int | None = None
    native: bool = False

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{self.function} ({place})"


class Thread(Record):
    """One thread of a stack dump. ``active`` is py-spy's guess of "on the CPU"."""

    frames: tuple[Frame, ...]
    name: str | None = None
    tid: int | None = None
    active: bool | None = None
    holds_gil: bool | None = None
    line: int | None = None  # where the thread starts in the source


class StackDump(Record):
    """The stacks of one process at one moment.

    ``look`` counts the dumps of one process in time (0, 1, …). ``main_only``: the text shows
    the main thread alone, so the absence of other threads says nothing. ``copies``: the
    source says that so many processes stood there ("6 processes are in:").
    """

    who: Who
    tool: str  # "py-spy", "faulthandler", "gdb", "pystack", "traceback"
    threads: tuple[Thread, ...]
    source: Source
    look: int = 0
    taken_at: float | None = None
    command: str | None = None  # command line of the process
    main_only: bool = False
    copies: int = 1


class Role(enum.Enum):
    """What a process does for its job."""

    RANK = "rank"
    LAUNCHER = "launcher"
    DATALOADER_WORKER = "dataloader-worker"
    COMPILE_WORKER = "compile-worker"
    RESOURCE_TRACKER = "resource-tracker"
    OTHER = "other"


class Counters(Record):
    """What the kernel counted for one thread since it started.

    ``cpu_ticks`` is user plus system time in clock ticks; ``switches`` counts voluntary context
    switches: how often it went to sleep. Equal before and after an interval: it did not run.
    """

    cpu_ticks: int
    switches: int


class LockWait(Record):
    """A lock on a file that a process waits for, as /proc/locks tells (proc(5)).

    ``holder_pid`` is the process that took the lock; ``holder`` its command line, empty where
    it has ended (a child that inherited the file may hold the lock on) or cannot be seen.
    """

    holder_pid: int
    holder: str = ""
    path: str | None = None


class Process(Record):
    """What /proc tells of one process at one look.

    ``state`` is the kernel's letter (R, S, D, T, t, Z, X). ``before`` and ``after`` are the
    counters of the main thread just before and just after the stack dump of this look, so
    that the dump itself does not count as movement. ``environ`` is cut to an allow-list.
    ``descriptors`` says what open files point at, folded ("pipe x3", "/data/a.bin").
    """

    who: Who
    source: Source
    look: int = 0
    taken_at: float | None = None
    ppid: int | None = None
    role: Role = Role.OTHER
    command: str = ""
    cwd: str | None = None
    state: str | None = None
    wchan: str | None = None
    environ: dict[str, str] = {}
    started_at: float | None = None
    descriptors: tuple[str, ...] = ()
    thread_count: int | None = None
    before: Counters | None = None
    after: Counters | None = None
    tracer_pid: int | None = None  # a debugger is attached
    threads: tuple[ThreadState, ...] = ()
    owner_pid: int | None = None  # of a helper: the rank process it works for
    lock: LockWait | None = None


class ThreadState(Record):
    """One kernel thread: its id, name, state letter and the kernel function it sleeps in.

    ``syscall`` is the system call it is in, with what its first argument points at where that
    is an open file: "read(5: /mnt/data/a.bin)"; told of the main thread only.
    """

    tid: int
    name: str
    state: str
    wchan: str | None = None
    syscall: str | None = None


class CallState(enum.IntEnum):
    """How far one call on one rank got. INSIDE: a stack shows the rank within the call."""

    UNKNOWN = 0
    INSIDE = 1
    SCHEDULED = 2
    STARTED = 3
    COMPLETED = 4


class Call(Record):
    """One collective or point-to-point operation as one rank issued it.

    ``op`` is the lower-case torch name ("all_reduce", "send"). ``seq`` is the sequence number
    of the group (collectives) or of the pair (``p2p``). ``peer`` is the global rank of a send
    or recv, when known, ``tag`` what both sides must agree on. Sizes are shapes, one per tensor.
    ``order`` counts the calls of this rank over all groups, as they were issued. ``unclosed``:
    in a coalesced block that was opened and not ended.
    """

    op: str
    seq: int | None = None
    state: CallState = CallState.UNKNOWN
    p2p: bool = False
    peer: int | None = None
    tag: int | None = None
    input_sizes: tuple[tuple[int, ...], ...] | None = None
    output_sizes: tuple[tuple[int, ...], ...] | None = None
    dtypes: tuple[str, ...] = ()
    created_at: float | None = None
    frames: tuple[Frame, ...] = ()
    line: int | None = None  # of the source
    order: int | None = None
    unclosed: bool = False


class Group(Record):
    """A process group: the name that ranks use for it and the global ranks in it.

    Groups with equal names and different ranks are different groups ("tp" on each node).
    ``inferred``: the membership was concluded, not read.
    """

    name: str
    ranks: tuple[int, ...] | None = None
    description: str | None = None
    inferred: bool = False


class Track(Record):
    """How far one rank came on one group, as one source tells.

    ``enqueued``, ``started`` and ``completed`` are the last sequence numbers (None: not told;
    0: none yet). ``calls`` holds those calls that matter, oldest first; ``lost`` counts
    records that a ring buffer overwrote. ``kind`` names the evidence ("flight-recorder",
    "watchdog", "fingerprint", "nccl-coll", "ras", "stack"). ``number`` is the rank within the
    group, where the source tells it. ``detail`` reads every call that the
    source has of this track, oldest first, where that is more than ``calls``.
    """

    who: Who
    group: Group
    kind: str
    source: Source
    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None
    calls: tuple[Call, ...] = ()
    lost: int = 0
    look: int = 0
    number: int | None = None
    detail: Callable[[], tuple[Call, ...]] | None = None


class LogLine(Record):
    """One line that a scanner found telling.

    ``matched`` holds the names of the patterns that found it, ``fields`` what their named
    groups captured. ``text`` is the line without launcher prefix, cut to a sane length;
    ``offset`` is its first byte in the file.
    """

    who: Who
    text: str
    source: Source
    matched: tuple[str, ...] = ()
    fields: dict[str, str] = {}
    time: float | None = None
    offset: int | None = None
    count: int = 1  # lines alike of this rank that the scanner folded into this one


class Exit(Record):
    """A process ended, as a launcher, scheduler or kernel reports it. ``signal`` 9 is SIGKILL."""

    who: Who
    source: Source
    quote: str
    exitcode: int | None = None
    signal: int | None = None
    time: float | None = None


class Claim(Record):
    """One fact about the whole job or one rank: about="world_size", value="8"."""

    about: str
    value: str
    who: Who
    source: Source


ROOT_CLAIM = "root-of-collective"
"""What a claim "broadcast 3" is about: the rank that its own takes for the root of its call."""

IN_DEFAULT_GROUP = " in the default group"
"""Ends the value of such a claim where the call was given no group."""


class Listener(Record):
    """A process that listens on the port of a store; no ``pid``: this user may not see whose.

    ``ours``: it belongs to the job that is looked at. ``same_script``: it is a Python program
    that runs the same script, as what an earlier run left behind does.
    """

    address: str
    pid: int | None = None
    command: str = ""
    started_at: float | None = None
    rank: int | None = None
    ours: bool = False
    same_script: bool = False


class StoreView(Record):
    """What the place where the ranks are to meet (a TCPStore) told a client that only asked.

    ``host`` and ``port`` are as the job names them, ``asked_by`` the processes that it named them
    to, ``resolved`` the addresses of the name as they see it. ``outcome`` is "answered";
    "silent": it took the connection and said nothing; "stranger": it said something that no store
    says (``why`` quotes it); "closed": it hung up; "refused"; "unreachable": nothing came back
    from there; "unresolved": the name has no address; "unanswered": the time was up before the
    name was resolved; "elsewhere": it is in a network that this user may not enter; "failed".
    ``keys`` are the names of what is stored, without their common first slash; not ``complete``:
    only those of a few likely ones that exist. ``values`` holds what is known to be harmless:
    counts and who has joined a rendezvous. ``listeners`` are who listens on that port in the
    network of those processes, ``own_address`` whether the address is one of that network's own;
    ``network`` names it, so that one can tell whether two views are from the same. With
    ``--probe``: ``mtu`` is the size in bytes of the largest packet that the kernel would send
    there, ``echo_small`` and ``echo_large`` whether a small one and one of that size came back.
    "not asked": the port was only connected to.
    """

    who: Who
    source: Source
    host: str
    port: int
    outcome: str
    why: str = ""
    resolved: tuple[str, ...] = ()
    connected_to: str | None = None
    asked_by: tuple[int, ...] = ()
    num_keys: int | None = None
    keys: tuple[str, ...] | None = None
    complete: bool = True
    values: dict[str, str] = {}
    listeners: tuple[Listener, ...] = ()
    own_address: bool | None = None
    network: str | None = None
    mtu: int | None = None
    echo_small: bool | None = None
    echo_large: bool | None = None
    taken_at: float | None = None
    seconds: float | None = None


class FileView(Record):
    """The file that ranks meet through, as the processes ``asked_by`` see it.

    ``why`` says what kept it from being opened. ``processes`` is how many it has counted,
    ``repeated`` are keys that were set more than once: a rank sets its address once a start.
    """

    who: Who
    source: Source
    path: str
    asked_by: tuple[int, ...]
    folder_exists: bool
    exists: bool
    why: str = ""
    device: int | None = None
    inode: int | None = None
    size: int | None = None
    modified_at: float | None = None
    processes: int | None = None
    keys: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


class Excerpt(Record):
    """Source lines of the user's code around a place, so that a report can show them."""

    file: str
    first_line: int
    lines: tuple[str, ...]


class Agent(Record):
    """What a launcher with a rendezvous of its own (torchrun's agent) was told, and what it does.

    ``endpoint`` is "host:port" where agents meet, ``run_id`` the name of the meeting. ``meeting``:
    it waits there for the agents of other nodes and has started no rank (None: not known).
    ``reached``: it holds the meeting place or is connected to it. ``joined`` counts the nodes that
    have come, as far as its sockets tell.
    ``restarts`` counts how often it has started its ranks anew. ``quote`` is what says so.
    """

    who: Who
    source: Source
    quote: str
    backend: str | None = None  # "c10d", "static", "etcd", "etcd-v2"
    min_nodes: int | None = None
    max_nodes: int | None = None
    per_node: int | None = None
    node_rank: int | None = None
    endpoint: str | None = None
    run_id: str | None = None
    meeting: bool | None = None
    reached: bool | None = None
    joined: int | None = None
    restarts: int | None = None


class Gap(Record):
    """Evidence that was looked for and not had.

    ``what`` was tried, ``why`` it failed, ``cost`` is what the diagnosis loses by it,
    ``remedy`` what a person can do. Each is a clause or sentence without full stop.
    """

    what: str
    why: str
    cost: str = ""
    remedy: str = ""
    who: Who = NOBODY
    source: Source | None = None

    def __str__(self) -> str:
        text = f"{self.what}: {self.why}"
        if self.cost:
            text += f"; {self.cost}"
        return f"{text}. {self.remedy}." if self.remedy else f"{text}."


class GpuProcess(Record):
    """A process with a context on a GPU. ``memory`` is in MiB; ``slice`` names its MIG instance.

    ``pid`` is a number of the namespace in which the tool ran, mostly the host's.
    """

    pid: int
    name: str = ""
    memory: float | None = None
    slice: str | None = None  # "GPU instance/compute instance": "7/0"
    graphics: bool = False  # a display server, not a program that computes


class GpuSlice(Record):
    """A MIG device: a part of a GPU that programs see as one of their own."""

    device: int | None = None
    instance: str | None = None  # as in ``GpuProcess.slice``
    uuid: str | None = None
    memory_used: float | None = None  # MiB


class NvLink(Record):
    """One NVLink of a GPU. ``errors`` adds up its counters of replay, recovery and CRC errors."""

    number: int
    active: bool | None = None
    errors: int | None = None


class Gpu(Record):
    """What one tool tells of one GPU at one moment; None where it tells nothing.

    ``who`` names the host. ``look`` counts the samples of one source in time. ``index`` is
    nvidia-smi's, ``bus`` the PCI address as "domain:bus:device" ("0000:1b:00"). ``busy`` and
    ``memory_busy`` are per cent of time, memory is in MiB, power in W, clocks in MHz,
    temperature in degrees Celsius. ``ecc_uncorrected`` counts since the driver was loaded,
    ``ecc_ever`` over the life of the board. ``reasons`` are those for which the clocks are held
    down ("hw_thermal_slowdown"). ``peers`` is its row of the topology matrix. ``trouble`` is
    what the tool says in the place of a value, or of the whole GPU, verbatim ("ERR!");
    ``lost``: that the driver no longer reaches it.
    """

    who: Who
    source: Source
    tool: str  # "nvidia-smi -q -x", "nvml", "dcgmi dmon", …
    look: int = 0
    taken_at: float | None = None
    index: int | None = None
    uuid: str | None = None
    bus: str | None = None
    name: str | None = None
    driver: str | None = None
    cuda: str | None = None
    busy: float | None = None
    memory_busy: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    power: float | None = None
    power_limit: float | None = None
    sm_clock: float | None = None
    sm_clock_max: float | None = None
    memory_clock: float | None = None
    temperature: float | None = None
    pstate: str | None = None
    compute_mode: str | None = None
    mig: bool | None = None
    slices: tuple[GpuSlice, ...] = ()
    ecc_uncorrected: float | None = None
    ecc_corrected: float | None = None
    ecc_ever: float | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retire_pending: bool | None = None
    recovery: str | None = None
    reasons: tuple[str, ...] | None = None
    fabric: str | None = None
    links: tuple[NvLink, ...] | None = None
    peers: tuple[str, ...] | None = None
    processes: tuple[GpuProcess, ...] | None = None
    trouble: str | None = None
    lost: bool = False
    quote: str = ""  # the line or values that a report cites


Fact: TypeAlias = (
    StackDump
    | Process
    | Track
    | Group
    | LogLine
    | Exit
    | Claim
    | StoreView
    | FileView
    | Excerpt
    | Agent
    | Gpu
    | Gap
)
Facts: TypeAlias = Iterable[Fact]


def fold(ranks: Iterable[int]) -> str:
    """Print ranks the way people say them: ``0-3,7``."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)

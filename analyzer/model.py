"""Facts: what a collector can say about one rank, with where it was read.

Every record is frozen and carries its provenance. Collectors yield these and nothing
else; the analysis consumes these and nothing else (``facts`` has the statements, ``model_gpu`` and
``model_meeting`` have those of GPUs and of meeting places). ``None`` always means "not known",
never "none" or zero. Ranks are global ranks, times are seconds since the epoch (UTC), frames are
innermost first, unless a field says otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    from whyhang.analyzer.facts import Statement
    from whyhang.analyzer.model_gpu import Gpu
    from whyhang.analyzer.model_meeting import Agent, FileView, StoreView

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

MAX_RANKS = 1 << 18
"""No job has as many ranks: a larger number is a damaged line's or file's, or a lie."""


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
    ``descriptors`` says what open files point at, folded ("pipe x3", "/data/a.bin"). ``holds``
    are the files on which it has an exclusive lock, as the kernel knows, ``positions`` how far it
    is in the regular files that it has open, in bytes.
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
    holds: tuple[str, ...] = ()
    positions: dict[str, int] = {}


class ThreadState(Record):
    """One kernel thread: its id, name, state letter and the kernel function it sleeps in.

    ``syscall`` is the system call it is in, with what its first argument points at where that
    is an open file: "read(5: /mnt/data/a.bin)"; told of the main thread only. ``cpu_ticks`` is
    what it has used since it began, in clock ticks.
    """

    tid: int
    name: str
    state: str
    wchan: str | None = None
    syscall: str | None = None
    cpu_ticks: int | None = None


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
    source has of this track, oldest first, where that is more than ``calls``. ``library`` is
    what the calls go through ("nccl", "gloo"). ``unrecorded``: the source counts more calls of
    this rank than it records (over gloo: sends and receives), so it may stand in one of those.
    ``in_motion``: the source was written sooner after the last call than this rank takes
    between two calls, so nothing shows that it stands still. ``idle``: no call of this rank on
    this group is open, though nothing tells how far it came. ``cut``: the source ends in the
    middle, and later calls may be missing.
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
    library: str = ""
    unrecorded: bool = False
    in_motion: bool = False
    idle: bool = False
    cut: bool = False


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


class Excerpt(Record):
    """Source lines of the user's code around a place, so that a report can show them."""

    file: str
    first_line: int
    lines: tuple[str, ...]


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
        if not self.remedy:
            return f"{text}."
        is_command = self.remedy.startswith(("pip ", "whyhang "))
        first = self.remedy[:1] if is_command else self.remedy[:1].upper()
        return f"{text}. {first}{self.remedy[1:]}."


# A string, so that a run without GPUs and meeting places need not load their records.
Fact: TypeAlias = (
    "StackDump | Process | Track | Group | LogLine | Exit | Statement | Excerpt | Gap"
    " | StoreView | FileView | Agent | Gpu"
)
Facts: TypeAlias = "Iterable[Fact]"


def fold(ranks: Iterable[int]) -> str:
    """Print ranks the way people say them: ``0-3,7``."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def few(ranks: Iterable[int], most: int = 12) -> str:
    """Print ranks for a sentence: of more than ``most`` runs, the first and how many there are."""
    chosen = set(ranks)
    runs = fold(chosen).split(",")
    if len(runs) <= most:
        return ",".join(runs)
    return f"{','.join(runs[: most - 2])},… ({len(chosen)} in all)"

"""The words for waits: their kinds, on whom they depend, the rule that reads one off a frame.

``whyhang.analyzer.stacks`` gives all of these on; import them from there.
"""

import enum
from collections.abc import Callable

from whyhang.analyzer.facts import Frame, Record, replace

LineText = Callable[[Frame], str | None]
"""Gives the line of source of a frame, where it was kept."""


class Scope(enum.Enum):
    """On whom a wait depends."""

    RANKS = "ranks"  # on other ranks, for sure
    MAYBE = "maybe"  # perhaps on other ranks: a backward, a CUDA synchronize
    LOCAL = "local"  # on something of its own process or host
    THREAD = "thread"  # on another thread of the same process
    IDLE = "idle"  # on work to do: an idle DataLoader worker, a launcher
    WORK = "work"  # on nothing: it runs


class WaitKind(enum.Enum):
    """What a wait is for. The value is the phrase a report uses when nothing better is known."""

    COLLECTIVE = "in a collective"
    P2P = "in a point-to-point operation"
    INIT = "in the rendezvous of init_process_group"
    STORE = "waiting for a key of the store"
    GROUP = "creating a process group"
    MPI = "in an MPI call"
    NCCL_INIT = "setting up an NCCL communicator"
    BACKWARD = "in backward"
    CUDA_SYNC = "waiting for the GPU"
    JOIN = "waiting for another thread"
    FUTURE = "waiting for a result of another thread"
    DATALOADER = "waiting for its DataLoader workers"
    DATASET = "inside the dataset"
    QUEUE = "waiting on a queue"
    LOCK = "waiting for a lock"
    GIL = "waiting for the GIL"
    FILE = "in file I/O"
    NETWORK = "in network I/O"
    SUBPROCESS = "waiting for a child process"
    SLEEP = "sleeping"
    INPUT = "waiting for input"
    DEBUGGER = "in a debugger"
    CHECKPOINT = "in a checkpoint"
    COMPILE = "compiling"
    IMPORT = "importing a module"
    TEARDOWN = "shutting down"
    IDLE = "idle"
    POLL = "waiting in the kernel"
    WORK = "running"


SCOPES: dict[WaitKind, Scope] = {
    WaitKind.COLLECTIVE: Scope.RANKS,
    WaitKind.P2P: Scope.RANKS,
    WaitKind.INIT: Scope.RANKS,
    WaitKind.STORE: Scope.RANKS,
    WaitKind.GROUP: Scope.RANKS,
    WaitKind.MPI: Scope.RANKS,
    WaitKind.NCCL_INIT: Scope.RANKS,
    WaitKind.BACKWARD: Scope.MAYBE,
    WaitKind.CUDA_SYNC: Scope.MAYBE,
    WaitKind.JOIN: Scope.THREAD,
    WaitKind.FUTURE: Scope.THREAD,
    WaitKind.IDLE: Scope.IDLE,
    WaitKind.WORK: Scope.WORK,
}
"""Scope of each kind; what is not named here is LOCAL."""


FILE_LOCK = "file-lock"
AWAITED_FILE = "awaited-file"
EXIT = "exit"  # the program is through, the interpreter is not
SHARED_LOCK = "shared-lock"  # of multiprocessing
PROCESS_POOL = "process-pool"
BLOCKED_LOOP = "blocked-loop"  # an event loop that waits in a coroutine for another one of its own
BLOCKED_POOL = "blocked-pool"  # all of its threads wait for a task of their own pool
REQUESTS = "requests"
OPENMP = "openmp"
NOTIFICATION = "notification"  # of an event or a condition of multiprocessing
SERVES = "serves"  # the main thread, while another one answers a rank
CRASH = "crash"
PIPE = "pipe"
"""What a rule or a guess has as its ``op`` where a wait is for such a thing."""


class Manner(enum.Enum):
    """The word that a phrase begins with."""

    IN = "in"
    WAITING = "waiting"
    DOING = ""


class Phrase(Record):
    """What a thread does, in words that follow "is": "in all_reduce", "waiting for the GPU"."""

    manner: Manner
    text: str
    aside: str = ""

    def __str__(self) -> str:
        words = f"{self.manner.value} {self.text}".lstrip()
        return f"{words}, {self.aside}" if self.aside else words

    @property
    def call(self) -> str:
        """The words that follow "stands in" and "has not reached"."""
        if self.manner is Manner.WAITING:
            return f"the wait {self.text}"
        return str(replace(self, manner=Manner.DOING) if self.manner is Manner.IN else self)

    @property
    def wait(self) -> str:
        """The words that follow "waits"."""
        return self.text if self.manner is Manner.WAITING else f"in {self.call}"


def phrase(words: str) -> Phrase:
    """Make a phrase of the words that a rule has."""
    first, _, rest = words.partition(" ")
    if rest and first in {Manner.IN.value, Manner.WAITING.value}:
        return Phrase(manner=Manner(first), text=rest)
    return Phrase(manner=Manner.DOING, text=words)


UNNAMED = phrase("in a collective")
"""Where a rank is known to wait in a collective, and nothing tells in which."""


class Layer(enum.Enum):
    """Which question a frame answers; see ``whyhang.analyzer.stacks``."""

    PURPOSE = "purpose"
    CONTEXT = "context"
    MECHANISM = "mechanism"


class WaitRule(Record):
    """A frame that means waiting for something.

    ``functions`` are last components of a qualified name (``_try_get_data`` matches
    ``_MultiProcessingDataLoaderIter._try_get_data``); "*" is any function, "*Pdb.*" any method of
    a class whose name ends so (Python 3.11+ tells the class). For ``native`` rules
    they are symbols without arguments ("c10d::Work::wait", "PMPI_Barrier"), leading underscores
    and glibc's ``__GI_`` left out; one that ends in ``*`` is a prefix. ``file`` is the tail of
    the path ("torch/distributed/distributed_c10d.py") or, with a slash at its end, a folder
    ("requests/"); empty for any file. For native frames it is a part of the library's name.
    ``op`` is the operation in torch's lower-case name; "=" means: the function's own name. Of
    waits that are no operation it is the name by which they are asked for ("file-lock").
    ``says`` is the phrase for reports. ``scope`` is given where it differs from that of the
    kind; MAYBE on a mechanism makes the place an uncertain one. ``verified`` says how the rule
    is known: "run 2.13" (seen on a real stack of that torch version), "run Python 3.8-3.13" or
    "run" (seen, no torch in it), "source 1.13-2.15" (the function stands in that file in these
    versions), "symbols 2.1-2.15" (in the shared library), the document it was taken from, or
    "by name, not seen". "in part" is said of rules that are made in a row.
    """

    kind: WaitKind
    functions: tuple[str, ...]
    file: str = ""
    layer: Layer = Layer.PURPOSE
    native: bool = False
    op: str | None = None
    says: str | None = None
    scope: Scope | None = None
    verified: str = ""


class Place(Record):
    """Where a thread is in its program and what it waits for.

    ``says`` is what it does, in words: "in all_reduce", "waiting for its DataLoader workers".
    ``op`` is the operation that the process group runs, in torch's
    lower-case name, ``api`` the outermost call it was reached by where that has another name
    (``all_gather_object`` runs ``all_gather``). ``context`` is the larger piece of work around
    it ("inside the dataset", "saving a checkpoint") with its phrase. ``frame`` is the frame
    that decided, ``user`` the one to point at: the innermost in the user's own code. ``certain`` is
    False where the kernel's state or a line of source had to be guessed from. ``native``: the stack
    had native frames.
    ``stopped``: the process is stopped by a signal or traced, whatever its stack says.
    ``through`` tells how the thread was reached where it is not the main thread, ``main_op`` what
    the main thread is in then.
    """

    kind: WaitKind
    scope: Scope
    says: Phrase
    op: str | None = None
    api: str | None = None
    context: WaitKind | None = None
    context_says: Phrase | None = None
    frame: Frame | None = None
    user: Frame | None = None
    thread: str | None = None
    tid: int | None = None
    certain: bool = True
    native: bool = False
    stopped: bool = False
    through: str | None = None
    main_op: str | None = None

    def __str__(self) -> str:
        parts = [str(part) for part in (self.says, self.context_says, self.through) if part]
        return ", ".join(dict.fromkeys(parts))


def scope_of(kind: WaitKind) -> Scope:
    """Return on whom a wait of this kind depends."""
    return SCOPES.get(kind, Scope.LOCAL)


def last_name(frame: Frame) -> str:
    """Return the function's own name: Python 3.11+ prints ``Class.method`` and ``f.<locals>.g``."""
    return frame.function if frame.native else frame.function.rpartition(".")[2]

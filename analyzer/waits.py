"""What a thread waits for, read off its stack with a table of frames.

The table itself is knowledge and lives in ``signatures/frames.py``; it is handed in. Three
layers are told apart, because a stack says several things at once:

* a *purpose* is what the wait is for ("in all_reduce", "waits for its DataLoader");
* a *context* is the larger piece of work around it ("inside the dataset", "saving a
  checkpoint"), in which user code may well run;
* a *mechanism* is how one waits ("on a lock", "in select"), and only speaks when nothing
  better does.
"""

from __future__ import annotations

import enum

from whyhang.analyzer.model import Frame, Record


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


class Layer(enum.Enum):
    """Which question a frame answers; see the module's text."""

    PURPOSE = "purpose"
    CONTEXT = "context"
    MECHANISM = "mechanism"


class WaitRule(Record):
    """A frame that means waiting for something.

    ``functions`` are last components of a qualified name (``_try_get_data`` matches
    ``_MultiProcessingDataLoaderIter._try_get_data``); for ``native`` rules, symbols without
    arguments, matched as a prefix ("c10d::Work::wait", "PMPI_Barrier"). ``file`` is the tail
    of the path ("torch/distributed/distributed_c10d.py"), empty for any file; for native
    frames, a part of the library's name. ``op`` is the operation in torch's lower-case
    name; "=" means: the function's own name. ``says`` is the phrase for reports.
    ``verified`` says how the rule is known: "run 2.13" or "source 1.13-2.15".
    """

    kind: WaitKind
    functions: tuple[str, ...]
    file: str = ""
    layer: Layer = Layer.PURPOSE
    native: bool = False
    op: str | None = None
    says: str | None = None
    verified: str = ""


def scope_of(kind: WaitKind) -> Scope:
    """Tell on whom a wait of this kind depends."""
    return SCOPES.get(kind, Scope.LOCAL)


def last_name(frame: Frame) -> str:
    """Give the function's own name: Python 3.11+ prints ``Class.method`` and ``f.<locals>.g``."""
    return frame.function.rpartition(".")[2] if not frame.native else frame.function

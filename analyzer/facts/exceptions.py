"""Exceptions that logs hold: whether a rank failed by itself, or stood there because of others.

A rank that raised within a collective because a peer was gone or late, or that somebody stopped
(Ctrl-C, SIGTERM), has not failed: its traceback shows where it stood, like a stack.
"""

import re

from whyhang.analyzer.facts.base import Record
from whyhang.analyzer.facts.stacks import Frame

EXCEPTION_STACK = "exception"
"""The tool of a stack that is the traceback of an exception: where a rank stood as it ended."""

OF_OTHERS = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError"})
NCCL_FAILED = ("NCCL error", "NCCL Error")
"""How torch begins when a call of NCCL failed, in a backward too, where no frame names an op."""

BY_OTHERS = (
    *NCCL_FAILED,
    "NCCL communicator was aborted",
    "DEADLINE_EXCEEDED",
    "UNAVAILABLE: ",
    "Worker failed with error",
    "WorkerProc initialization failed",
    "Engine core initialization failed",
    "EngineCore encountered an issue",
)
"""The same for a communicator that was aborted, which something has led to, for what XLA says of
tasks that did not come, and vLLM's engine of its workers."""

POINTS_ELSEWHERE = (
    "The details refer to 'Ascend Error Message'",
    "`Termination signal` is detected",
    "The Inner error is reported as above",
)
"""Words of MindSpore and torch_npu for an error of the device that is printed elsewhere; of Paddle
for a SIGTERM.
"""

ON_REQUEST = frozenset(
    {"KeyboardInterrupt", "SystemExit", "SignalException", "ChildFailedError", "BrokenPipeError"}
)
"""Exceptions that end a process on somebody else's word."""

_ABOUT_OTHERS = re.compile(
    r"[NHX]CCL|gloo|socket|connect|store|abort|timed? ?out|barrier|peer|pipe|mismatch"
    r"|stream synchron|error code is (?:50704[68]|107020)\b",  # of an NPU, whose stream timed out
    re.IGNORECASE,
)

_ASSERTED = "INTERNAL ASSERT FAILED"
"""PyTorch found its own state wrong: no rank can bring that about in another."""

_GLOO, _GLOO_LIMIT = "gloo/transport/", "Application timeout caused pair closure"
"""Words of gloo, whose own limit it names without its place."""

_FAILED_CALL = re.compile(
    r"(?i)\b(?:nccl|hccl|rccl)(?:all|reduce|broadcast|send|recv|barrier|gather|scatter)\w*,? "
    r"(?:error code|failed|returned)"
)
"""A collective of a library, of which the library says why it failed."""


CUT_OFF = "an exception, whose words are cut off"
"""Stands for the type, where a text ends within the traceback."""


class Raised(Record):
    """An exception of Python that a log holds.

    ``frame`` is the innermost of the user's own code, ``op`` the call of torch.distributed within
    which it was raised. ``thread`` names the thread that it ended, which was not the main one, and
    ``process`` a process of ``multiprocessing``, which may be a rank or, where all ranks live and
    ``thread`` names it as well, the child of one.
    ``stood``: the frames, innermost first, where others brought it about: there the rank stood.
    """

    type: str
    message: str = ""
    frame: Frame | None = None
    op: str | None = None
    of_launcher: bool = False
    thread: str | None = None
    process: str | None = None
    stood: tuple[Frame, ...] = ()

    def __str__(self) -> str:
        message = self.message.partition("\n")[0]
        return f"{self.kind}: {message}" if message else self.kind

    @property
    def kind(self) -> str:
        """The type without its module."""
        return self.type.rpartition(".")[2]

    @property
    def is_own(self) -> bool:
        """Return whether a rank raised it of itself, not because of another rank."""
        return not (
            self.of_launcher
            or self.kind in OF_OTHERS
            or (self.op and self.is_about_others)
            or self.message.startswith(BY_OTHERS)
            or any(words in self.message for words in (_GLOO, *POINTS_ELSEWHERE))
            or self.message.startswith(_GLOO_LIMIT)
            or _FAILED_CALL.search(self.message)
            or self.kind in ON_REQUEST
            # The process at the other end of a pipe has ended, and says why: multiprocessing raises
            # this without words; that of ``input`` and of pickles has some.
            or (self.kind == "EOFError" and not self.message)
        )

    @property
    def is_about_others(self) -> bool:
        """Return whether an exception of a collective is due to other ranks, and no misuse."""
        about = _ASSERTED not in self.message and _ABOUT_OTHERS.search(self.message) is not None
        return self.kind in OF_OTHERS or about

"""Exceptions that logs hold: whether a rank failed by itself, or stood there because of others.

A rank that raised within a collective because a peer was gone or late, or that somebody stopped
(Ctrl-C, SIGTERM), has not failed: its traceback shows where it stood, like a stack.
"""

import re
from collections.abc import Mapping

EXCEPTION = "python-exception"
"""The name under which the log reader gives tracebacks."""

EXCEPTION_STACK = "exception"
"""The tool of a stack that is the traceback of an exception: where a rank stood as it ended."""

OF_OTHERS = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError"})
NCCL_FAILED = ("NCCL error", "NCCL Error")
"""How torch begins when a call of NCCL failed, in a backward too, where no frame names an op."""

BY_OTHERS = (
    *NCCL_FAILED,
    "DEADLINE_EXCEEDED: Barrier timed out",
    "Worker failed with error",
    "WorkerProc initialization failed",
    "Engine core initialization failed",
    "EngineCore encountered an issue",
)
"""The same for what XLA says of tasks that did not come, and vLLM's engine of its workers."""

ON_REQUEST = frozenset(
    {"KeyboardInterrupt", "SystemExit", "SignalException", "ChildFailedError", "BrokenPipeError"}
)
"""Exceptions that end a process on somebody else's word."""

_ABOUT_OTHERS = re.compile(
    r"[NHX]CCL|gloo|socket|connect|store|abort|timed? ?out|barrier|peer|pipe|mismatch",
    re.IGNORECASE,
)


def is_own_exception(fields: Mapping[str, str]) -> bool:
    """Return whether a rank raised an exception of itself, not because of another rank."""
    return (
        fields.get("launcher") != "yes"
        and not (fields.get("op") and is_about_others(fields))
        and not fields.get("message", "").startswith(BY_OTHERS)
        and "gloo/transport/" not in fields.get("message", "")
        and fields.get("type", "").rpartition(".")[2] not in ON_REQUEST
    )


def is_about_others(fields: Mapping[str, str]) -> bool:
    """Return whether an exception of a collective is due to other ranks, and no misuse of it."""
    kind = fields.get("type", "").rpartition(".")[2]
    return kind in OF_OTHERS or _ABOUT_OTHERS.search(fields.get("message", "")) is not None

"""Lines of real gloo and torchrun runs, cut down, for tests of what a log tells."""

from __future__ import annotations

RESET = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] "
    "Read error [127.0.0.1]:2203: Connection reset by peer. This is typically caused by a "
    "remote worker hanging or bugs in the application."
)
SHAPE = (
    "RuntimeError: [1]: params[0] in this process with sizes [5, 4] "
    "appears not to match sizes of the same param in process 0."
)
MEMBER = "Initializing distributed: GLOBAL_RANK: {}, MEMBER: {}/5\n"


def raised(error: str, *, rank: int | None = None) -> str:
    """Write a traceback, with the prefix of torch 2.2 or without."""
    text = f'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n{error}\n'
    mark = "" if rank is None else f"[rank{rank}]: "
    return "".join(f"{mark}{line}\n" for line in text.splitlines())


def table(*ranks: int, code: int = 1) -> str:
    """Write torchrun's table of failures for ranks that ended with a code."""
    return "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n" + "".join(
        f"[{rank}]:\n  time      : 2026-11-21_02:13:03\n  host      : node1\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {700 + rank})\n"
        "  error_file: <N/A>\n"
        for rank in ranks
    )

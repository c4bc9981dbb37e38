"""A sign of life of each rank: the step it is in, in a file of one line that is written over.

Made to stand in a training loop: nothing is imported but the standard library, a call takes some
microseconds, and none ever raises. The file is one line of ``SIZE`` bytes::

    whyhang-heartbeat 1 rank 3 of 8 pid 4711 step 1200 beats 1201 longest 3.214 time 1763841882.123 host node1

``beats`` counts the calls, ``longest`` is the longest time between two of them in seconds, ``time``
is that of the last in seconds since the epoch. A number that is not known is "-". The process keeps
the file open, so that whoever looks at it finds the file among its descriptors, wherever it lies.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import SupportsIndex, SupportsInt

SIZE = 192
ENDING = ".heartbeat"
FOLDER = "WHYHANG_HEARTBEAT_DIR"
MARK = "whyhang-heartbeat 1 "

MAX_HOST = 64
KEPT = 14 * 86400
"""Seconds after which files of earlier jobs are removed from the folder of this user."""

RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
"""Variables that name a rank and the world size; the first that is set counts."""


class _File:
    """The open file of this process, and what the next line needs."""

    __slots__ = ("_longest", "beats", "host", "number", "path", "pid", "rank", "time", "world")

    def __init__(self) -> None:
        self.rank, self.world = _rank(os.environ)
        host = os.uname().nodename[:MAX_HOST].replace(" ", "_") or "host"
        folder = os.environ.get(FOLDER) or _own_folder()
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.pid = os.getpid()
        self.path = f"{folder}/{host}.{self.pid}{ENDING}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        self.number = os.open(self.path, flags, 0o644)
        self.host = host
        self.beats = 0
        self.time = 0.0
        self._longest = 0.0

    def write(self, step: int | None) -> None:
        now = time.time()
        if self.beats:
            self._longest = max(self._longest, now - self.time)
        self.beats += 1
        self.time = now
        if self.rank is None:  # a program may come to its group later
            self.rank, self.world = _rank_of_torch()
        text = line(
            self.rank,
            self.world,
            self.pid,
            self.beats - 1 if step is None else step,
            self.beats,
            self._longest,
            now,
            self.host,
        )
        os.pwrite(self.number, text, 0)

    def drop(self) -> None:
        """Close it and take it away: a beat that has stopped by itself would look like a hang."""
        with contextlib.suppress(OSError):
            os.close(self.number)
        with contextlib.suppress(OSError):
            Path(self.path).unlink()


_file: _File | None = None
_off = False


def heartbeat(step: int | None = None) -> None:
    """Note that this rank is in this step now. For a training loop: costs microseconds.

    ``step`` is a whole number; without one the calls are counted. A tensor is not asked for its
    value, which would wait for the GPU: its calls are counted, too. The line goes into a file of
    the folder ``WHYHANG_HEARTBEAT_DIR``, or of ``whyhang-UID`` in the temporary folder. Never
    raises; what keeps it from writing is logged once (logger "whyhang"), then it does nothing.
    """
    global _file, _off
    if _off:
        return
    try:
        if _file is None:
            _file = _File()
        _file.write(step if type(step) is int else _whole(step))
    except Exception as error:
        _off = True
        if _file is not None:
            _file.drop()
            _file = None
        import logging

        logging.getLogger("whyhang").warning("whyhang.heartbeat writes nothing: %s", error)


def _after_fork() -> None:
    """Let a forked child, which is another process, begin a file of its own if it calls."""
    global _file
    if _file is not None:
        with contextlib.suppress(OSError):
            os.close(_file.number)
        _file = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _whole(step: object) -> int | None:
    if step is None or type(step).__module__.partition(".")[0] == "torch":
        return None
    if not isinstance(step, (SupportsIndex, SupportsInt)):
        raise TypeError(f"a step is a number, not {step!r:.40}")
    return int(step)


def line(
    rank: int | None,
    world: int | None,
    pid: int,
    step: int,
    beats: int,
    longest: float,
    when: float,
    host: str,
) -> bytes:
    """Write one line of ``SIZE`` bytes; see the top."""
    return (
        f"{MARK}rank {'-' if rank is None else rank} of {'-' if world is None else world} "
        f"pid {pid} step {step} beats {beats} longest {longest:.3f} time {when:.3f} host {host}"
    ).encode()[: SIZE - 1].ljust(SIZE - 1) + b"\n"


def _rank(environ: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return rank and world size, as torch.distributed knows them or the environment names them."""
    rank, world = _rank_of_torch()
    if rank is not None:
        return rank, world
    for name, size in RANKS:
        if environ.get(name, "").isdecimal():
            count = environ.get(size, "")
            return int(environ[name]), int(count) if count.isdecimal() else None
    return None, None


def _rank_of_torch() -> tuple[int | None, int | None]:
    """Ask torch.distributed, if the program has imported it by itself."""
    group = sys.modules.get("torch.distributed")
    if group is None or not (group.is_available() and group.is_initialized()):
        return None, None
    return group.get_rank(), group.get_world_size()


def _own_folder() -> str:
    """Return the folder of this user, which nobody else can have put there."""
    import tempfile  # takes longer than the rest of this file

    folder = f"{tempfile.gettempdir()}/whyhang-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        Path(folder).mkdir(0o700)
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user; set {FOLDER}")
    with contextlib.suppress(OSError):
        _remove_old(folder)
    return folder


def _remove_old(folder: str) -> None:
    before = time.time() - KEPT
    for entry in os.scandir(folder):
        if entry.name.endswith(ENDING) and entry.stat(follow_symlinks=False).st_mtime < before:
            Path(entry.path).unlink()

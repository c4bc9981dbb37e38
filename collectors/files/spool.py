"""Where the members of archives are kept while they are read, and how much may come out of them.

One budget is for all that a user names, and all archives within. A bomb is known by its growth:
each archive has a share, a multiple of its own size, and what comes out of it is charged to it and
to every archive around it. Beyond the shares there is a fixed amount for all together, so that a
small archive of a log that repeats itself is read.
"""

import contextlib
import errno
import fcntl
import io
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from whyhang.analyzer.facts import Record
from whyhang.collectors.files import unpack

MIB = 1 << 20

_PREFIX = "whyhang-unpacked-"
_NAME = "spool"


class UnpackLimits(Record):
    """How much is taken of folders and archives before the rest is left.

    ``total_bytes``, ``members`` and ``ratio_free_bytes`` are for all archives together,
    ``member_bytes`` is for one file in them. ``ratio`` is the share of an archive, in multiples
    of its size (logs compress by 10 to 100).
    """

    total_bytes: int = 32 << 30
    member_bytes: int = 8 << 30
    members: int = 250_000
    depth: int = 4
    folder_depth: int = 64
    ratio: int = 1000
    ratio_free_bytes: int = 256 * MIB


class SpentError(Exception):
    """Nothing more is unpacked of the archive at ``depth`` (0: of none), and why."""

    def __init__(self, depth: int, why: str, *, bomb: bool = False, remedy: str = "") -> None:
        super().__init__(why)
        self.depth = depth
        self.bomb = bomb
        self.remedy = remedy


class UnpackBudget:
    """What is left of the limits. Between ``enter`` and ``leave`` an archive is unpacked."""

    def __init__(self, limits: UnpackLimits) -> None:
        self.limits = limits
        self._total = self._bytes = limits.total_bytes
        self._members = limits.members
        self._free = limits.ratio_free_bytes
        self._shares: list[int] = []

    def cap(self, size: int) -> None:
        """Allow no more than ``size`` bytes in all."""
        self._total = min(self._total, size)
        self._bytes = min(self._bytes, size)

    def enter(self, packed: int) -> None:
        """Begin to unpack an archive of ``packed`` bytes, inside those that are open."""
        self._shares.append(packed * self.limits.ratio)

    def leave(self) -> None:
        """End what was begun last."""
        self._shares.pop()

    def spend(self, size: int) -> None:
        """Charge ``size`` bytes that were unpacked. Raises ``SpentError``."""
        self._bytes -= size
        if self._bytes < 0:
            raise SpentError(0, f"archives unpack to more than {self._total / MIB:,.0f} MiB")
        for depth, share in enumerate(self._shares):
            self._shares[depth] = max(0, share - size)
            self._free -= max(0, size - share)
            if size > share and self._free < 0:
                why = f"it unpacks to over {self.limits.ratio:,} times its size, as a bomb does"
                raise SpentError(depth, why, bomb=True)

    def count_member(self) -> None:
        """Charge one file in an archive. Raises ``SpentError``."""
        self._members -= 1
        if self._members < 0:
            raise SpentError(0, f"archives hold more than {self.limits.members:,} files")


SPOOLED_BYTES = MIB  # a member from this size on has a file of its own, which can be mapped


class Extent(Record):
    """Where ``size`` bytes lie; ``offset`` is None for a file of the user's own.

    ``holder`` is the worker that has unpacked them, on another machine.
    """

    local: str
    size: int
    offset: int | None = None
    holder: int | None = None

    @property
    def path(self) -> str | None:
        """Its path on disk, for a file of the user's own."""
        return self.local if self.offset is None and self.holder is None else None

    def open(self) -> BinaryIO:
        """Return a stream of these bytes. Raises OSError and ValueError."""
        global _last  # noqa: PLW0603 - see there
        if self.holder != here and self.holder is not None:
            if self.holder not in holders:
                raise FileNotFoundError(f"{self.local}: the worker that unpacked it has ended")
            return io.BufferedReader(holders[self.holder](self), MIB)
        if self is _last[0]:
            return io.BytesIO(_last[1])
        stream = open(self.local, "rb")  # noqa: PTH123, SIM115 - 100,000 times
        if self.offset is None or self.size >= SPOOLED_BYTES:
            return stream
        with stream:
            stream.seek(self.offset)
            _last = (self, stream.read(self.size))
        return io.BytesIO(_last[1])


here: int | None = None
"""The number of this process, where it is a worker."""

holders: dict[int, Callable[[Extent], io.RawIOBase]] = {}
"""What opens a file that a worker has unpacked, by the number of the worker."""

_last: tuple[Extent | None, bytes] = (None, b"")
"""The small member that was read last: its first bytes are looked at, then its reader reads it."""


class Spool:
    """One file for all small members and a numbered one for each large one."""

    def __init__(self, budget: UnpackBudget) -> None:
        self._budget = budget
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._file: io.FileIO | None = None
        self._count = 0  # of large members

    def close(self) -> None:
        """Remove everything."""
        if self._file is not None:
            self._file.close()
        if self._folder is not None:
            self._folder.cleanup()

    def keep(self, stream: unpack.Stream, most: int) -> tuple[Extent, bytes, Exception | None]:
        """Copy up to ``most`` bytes; return where they lie and how they begin.

        Third comes the error that ended it, if any. A bomb leaves nothing behind.
        """
        start = io.BytesIO()
        error = _copy(stream, start, min(SPOOLED_BYTES, most))
        try:
            return self._kept(start, stream, most, error)
        except OSError as no_room:
            place = "a temporary folder" if self._folder is None else Path(self._folder.name).parent
            raise SpentError(
                0,
                f"it cannot be unpacked to {place} ({no_room.strerror or no_room})",
                remedy="Free space there, or name a folder with room in the variable TMPDIR",
            ) from no_room

    def _kept(
        self, start: io.BytesIO, stream: unpack.Stream, most: int, error: Exception | None
    ) -> tuple[Extent, bytes, Exception | None]:
        """Write what was read, and the rest of a large member. Raises OSError for a full disk."""
        spool = self._open_file()
        size = start.tell()
        if size < SPOOLED_BYTES:
            extent = Extent(local=str(spool.name), size=size, offset=spool.tell())
            if spool.write(start.getbuffer()) < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return extent, bytes(start.getbuffer()[: unpack.MAGIC_BYTES]), error
        self._count += 1
        local = f"{spool.name}{self._count}"
        with Path(local).open("wb") as target:
            target.write(start.getbuffer())
            error = error or _copy(stream, target, most)
            extent = Extent(local=local, size=target.tell(), offset=0)
        if isinstance(error, SpentError) and error.bomb:
            Path(local).unlink()
        return extent, bytes(start.getbuffer()[: unpack.MAGIC_BYTES]), error

    def _open_file(self) -> io.FileIO:
        if self._file is None:
            remove_left_behind(Path(tempfile.gettempdir()))
            self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
            # Never fill the disk of the machine that hangs.
            self._budget.cap(shutil.disk_usage(self._folder.name).free * 9 // 10)
            self._file = io.FileIO(f"{self._folder.name}/{_NAME}", "w")
            with contextlib.suppress(OSError):  # a file system without locks: nobody removes it
                fcntl.flock(self._file, fcntl.LOCK_EX)
        return self._file


def remove_left_behind(place: Path) -> None:
    """Remove what a run of this user that was killed has left in ``place``.

    A run that goes on holds the lock on its file. In its first minute it may not have it yet.
    """
    for folder in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            old = time.time() - status.st_mtime > 60
            if not (old and stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()):
                continue
            with (folder / _NAME).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)


def _copy(stream: unpack.Stream, target: BinaryIO, most: int) -> Exception | None:
    """Copy up to ``most`` bytes; return what is wrong with the stream.

    Raises the OSError of writing.
    """
    while (left := most - target.tell()) > 0:
        try:
            chunk = unpack.read_some(stream, min(unpack.CHUNK, left))
        except (SpentError, *unpack.DAMAGE) as error:
            return error
        if not chunk:
            break
        target.write(chunk)
    return None

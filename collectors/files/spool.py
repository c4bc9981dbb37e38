"""Where the members of archives are kept while they are read: a temporary folder."""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

from whyhang.analyzer.facts import Record
from whyhang.collectors.files import unpack
from whyhang.collectors.files.budget import MIB, Budget, SpentError

SPOOLED_BYTES = MIB
"""A member from this size on has a file of its own, which can be mapped."""


class Extent(Record):
    """Where ``size`` bytes lie; ``offset`` is None for a file of the user's own."""

    local: str
    size: int
    offset: int | None = None

    def open(self) -> BinaryIO:
        """Return a stream of these bytes. Raises OSError and ValueError."""
        stream = open(self.local, "rb")  # noqa: PTH123, SIM115 - 100,000 times
        if self.offset is None or self.size >= SPOOLED_BYTES:
            return stream
        with stream:
            stream.seek(self.offset)
            return io.BytesIO(stream.read(self.size))


class Spool:
    """One file for all small members and a numbered one for each large one."""

    def __init__(self, budget: Budget) -> None:
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

    def keep(self, stream: unpack.Stream, most: int) -> tuple[Extent, Exception | None]:
        """Copy up to ``most`` bytes; return where they lie and the error that ended it, if any.

        A bomb leaves nothing behind.
        """
        start = io.BytesIO()
        error = _copy(stream, start, min(SPOOLED_BYTES, most))
        spool = self._open_file()
        size = start.tell()
        if size < SPOOLED_BYTES:
            extent = Extent(local=str(spool.name), size=size, offset=spool.tell())
            spool.write(start.getbuffer())
            return extent, error
        self._count += 1
        local = f"{spool.name}{self._count}"
        with Path(local).open("wb") as target:
            target.write(start.getbuffer())
            error = error or _copy(stream, target, most)
            extent = Extent(local=local, size=target.tell(), offset=0)
        if isinstance(error, SpentError) and error.bomb:
            Path(local).unlink()
        return extent, error

    def _open_file(self) -> io.FileIO:
        if self._file is None:
            self._folder = tempfile.TemporaryDirectory(prefix="whyhang-")
            # Never fill the disk of the machine that hangs.
            self._budget.cap(shutil.disk_usage(self._folder.name).free * 9 // 10)
            self._file = io.FileIO(f"{self._folder.name}/spool", "w")
        return self._file


def _copy(stream: unpack.Stream, target: BinaryIO, most: int) -> Exception | None:
    try:
        while (left := most - target.tell()) > 0:
            chunk = unpack.read_some(stream, min(unpack.CHUNK, left))
            if not chunk:
                break
            target.write(chunk)
    except (SpentError, *unpack.DAMAGE) as error:
        return error
    return None

"""Shared memory through which MPI passes messages between the ranks of a host.

Open MPI's ranks spin while they wait, so neither a stack nor a counter of the kernel's tells one
wait from the next. What the segments hold changes with each message, and with nothing else: they
are named ``vader_segment.*`` (btl/vader of Open MPI 3 and 4) or ``sm_segment.*`` (btl/sm of 5).
"""

import contextlib
import os
import re
import stat
import zlib
from collections.abc import Iterable

from whyhang.collectors.live.job.host import Host

MOST_READ = 1 << 20
"""Bytes of one segment that are read; of its megabytes some tens of kilobytes are in use."""

_SEGMENT = re.compile(rb"\s(/dev/shm/(?:vader|sm)_segment\.\S+)$", re.MULTILINE)


def messages(host: Host, pids: Iterable[int]) -> dict[int, int]:
    """Return a checksum of the segments that each process maps; without those that map none."""
    known: dict[str, int] = {}
    sums: dict[int, int] = {}
    for pid in pids:
        names = {name.decode() for name in _SEGMENT.findall(host.memory(pid, "maps") or b"")}
        paths = sorted(host.proc.path_for(pid, name) for name in names)
        for path in paths:
            if path not in known:
                known[path] = _checksum(path)
        if paths:
            sums[pid] = zlib.crc32(repr([known[path] for path in paths]).encode())
    return sums


def _checksum(path: str) -> int:
    """Sum up the parts of a file in memory that were ever written; 0 where it cannot be read."""
    total, at = 0, 0
    with contextlib.suppress(OSError):  # no data after ``at`` is one, too
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with contextlib.closing(os.fdopen(file, "rb", buffering=0)) as segment:
            while stat.S_ISREG(os.fstat(file).st_mode) and at < MOST_READ:
                begin = segment.seek(at, os.SEEK_DATA)
                at = min(segment.seek(begin, os.SEEK_HOLE), begin + MOST_READ)
                segment.seek(begin)
                total = zlib.crc32(segment.read(at - begin), total)
    return total

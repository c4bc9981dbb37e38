"""The file that ranks meet through (``file://``), as each of them sees it.

Layout, by torch/csrc/distributed/c10d/FileStore.cpp: entries are appended, each a key and a
value with its length in 4 bytes before it, in host order; the last of a key counts. ``refcount/``
(older: ``cleanup/``) counts processes, other keys begin with a slash. It is read as a plain
file: nothing is locked or written.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from whyhang.analyzer.model import Role, Source, Who, replace
from whyhang.analyzer.model_meeting import FileView
from whyhang.analyzer.redact import redact
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Job
from whyhang.collectors.live.spots import Spot

PATIENCE = 2.0
"""Seconds that the files get; a dead file server answers never."""

MAX_BYTES = 4 << 20
MAX_FILES = 16
SCHEME = "file://"

_IN_COMMAND = re.compile(r"file://(/[^\s'\"?]+)")
_COUNTS = {"refcount/", "cleanup/"}


class FileReading:
    """Looks at the files beside whatever else is done: a dead file server must hold nobody up."""

    def __init__(self, host: Host, job: Job, spots: Iterable[Spot], hostname: str) -> None:
        self._found: tuple[FileView, ...] = ()
        self._until = time.monotonic() + PATIENCE
        told = tuple(spots)

        def work() -> None:
            self._found = tuple(file_views(host, job, told, hostname))

        # a daemon, so that a thread stuck in the kernel does not keep whyhang from ending
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def finish(self) -> tuple[FileView, ...]:
        """Give what was found by now, or within the time that is left."""
        self._thread.join(max(0.0, self._until - time.monotonic()))
        return self._found


def file_views(host: Host, job: Job, spots: Iterable[Spot], hostname: str) -> list[FileView]:
    """Look at every file that ranks meet through, once for each set of mounts they have."""
    told = {
        spot.pid: spot.address.removeprefix(SCHEME)
        for spot in spots
        if spot.address is not None and spot.address.startswith(SCHEME)
    }
    found: dict[tuple[str, str], list[int]] = {}
    for member in job.members:
        if member.role is not Role.RANK:
            continue
        path = told.get(member.pid) or _in_command(host.arguments(member.pid))
        if path is not None:
            mounts = host.proc.namespace(member.pid, "mnt") or ""
            found.setdefault((path, mounts), []).append(member.pid)
    return [
        _view(host, path, pids, hostname) for (path, _), pids in list(found.items())[:MAX_FILES]
    ]


def _in_command(arguments: Iterable[str]) -> str | None:
    match = _IN_COMMAND.search("\n".join(arguments))
    return match.group(1) if match is not None else None


def _view(host: Host, path: str, pids: list[int], hostname: str) -> FileView:
    base = "root" if path.startswith("/") else "cwd/"
    reached = f"{host.proc.root}/{pids[0]}/{base}{path}"
    view = FileView(
        who=Who(host=hostname),
        source=Source(file="file_stores.json"),
        path=redact(path),
        asked_by=tuple(pids),
        folder_exists=os.path.isdir(os.path.dirname(reached)),  # noqa: PTH112, PTH120
        exists=False,
    )
    try:
        descriptor = os.open(reached, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return view
    except OSError as error:
        return _seen(view, why=error.strerror or str(error))
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        data = stream.read(MAX_BYTES) if stat.S_ISREG(facts.st_mode) else b""
    return _seen(view, facts=facts, data=data)


def _seen(
    view: FileView, *, why: str = "", facts: os.stat_result | None = None, data: bytes = b""
) -> FileView:
    if facts is None:
        return replace(view, exists=True, why=why)
    entries = list(entries_of(data))
    counted = [value for key, value in entries if key in _COUNTS and value.isdecimal()]
    times = Counter(key.removeprefix("/") for key, _ in entries if key.startswith("/"))
    return replace(
        view,
        exists=True,
        device=facts.st_dev,
        inode=facts.st_ino,
        size=facts.st_size,
        modified_at=round(facts.st_mtime, 2),
        processes=max((int(value) for value in counted), default=None),
        keys=tuple(sorted(redact(key) for key in times)),
        repeated=tuple(sorted(redact(key) for key, count in times.items() if count > 1)),
    )


def entries_of(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield key and value of each entry; stops at what is none."""
    position = 0
    while position + 4 <= len(data):
        pair = []
        for _ in range(2):
            if position + 4 > len(data):
                return
            (length,) = struct.unpack_from("=I", data, position)
            position += 4
            if position + length > len(data):
                return
            pair.append(data[position : position + length].decode("utf-8", "backslashreplace"))
            position += length
        if not pair[0]:
            return
        yield pair[0], pair[1]

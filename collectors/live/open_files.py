"""The files that a process has open or mapped: how far it is in them, locks on them, messages.

Locks are those of /proc/locks (proc(5), fs/locks.c). A line is a lock that is held; one with an
arrow, under the same number, waits for it. Locks that another host holds on a shared file system
are not in it, nor is a lock file that programs merely look for.

Open MPI's ranks spin while they wait, so neither a stack nor a counter of the kernel's tells one
wait from the next. What the shared memory holds through which MPI passes messages between the
ranks of a host changes with each message, and with nothing else: its segments are named
``vader_segment.*`` (btl/vader of Open MPI 3 and 4) or ``sm_segment.*`` (btl/sm of 5).
"""

import contextlib
import functools
import os
import re
import stat
import time
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from whyhang.analyzer.facts import LockWait, Process, replace
from whyhang.analyzer.redact import redact, redact_command
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.sockets import Sockets, awaited_connection, other_end

MAX_LINES = 64
"""Lines kept; sockets and devices go before files."""

MAX_POSITIONS = 64
"""Files of one process whose position is read."""

MOST_READ = 1 << 20
"""Bytes of one segment that are read; of its megabytes some tens of kilobytes are in use."""

_SEGMENT = re.compile(rb"\s(/dev/shm/(?:vader|sm)_segment\.\S+)$", re.MULTILINE)
_LIBRARY_PARTS = ("/site-packages/", "/dist-packages/", "/lib/python", "/usr/lib/", "/usr/share/")
_STANDARD = 2  # the last of standard input, output and error
_LOCK_CALLS = {"flock", "fcntl"}


def descriptors(proc: Proc, pid: int, sockets: Sockets) -> tuple[str, ...]:
    """Sum up the open files of a process."""
    named = (name_of(link, pid, sockets) for link in proc.open_files(pid).values())
    return fold(name for name in named if name is not None)


def name_of(link: str, pid: int, sockets: Sockets | None) -> str | None:
    """Say what a descriptor points at, or None for what tells nothing (libraries, /dev/null)."""
    if link.startswith("socket:["):
        return "socket" if sockets is None else sockets.name(pid, link[8:-1])
    if link.startswith("pipe:["):
        return "pipe"
    if link.startswith("anon_inode:"):
        return link[11:].strip("[]")
    if link.startswith(("/dev/shm/", "/memfd:")):  # noqa: S108 - compared, not written
        return "shared memory"
    if link == "/dev/null" or any(part in link for part in _LIBRARY_PARTS):
        return None
    return link


def fold(names: Iterable[str]) -> tuple[str, ...]:
    """Count equal names and put the telling ones first: sockets, devices, files, the rest."""
    lines = [
        name if count == 1 else f"{name} x{count}"
        for name, count in sorted(Counter(names).items(), key=lambda item: _order(item[0]))
    ]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"and {len(lines) - MAX_LINES + 1} more"]
    return tuple(lines)


def _order(name: str) -> tuple[int, str]:
    starts = (("tcp ", "udp "), ("/dev/",), ("/",), ("",))
    return next(number for number, start in enumerate(starts) if name.startswith(start)), name


def positions(proc: Proc, pid: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """Read how far a process is in each regular file that it has open (proc(5), fdinfo).

    The furthest counts where a file is open several times. What it prints is left out. And which
    of them it only reads.
    """
    offsets: dict[str, int] = {}
    written = set[str]()
    files = [
        (number, link)
        for number, link in proc.open_files(pid).items()
        if number > _STANDARD
        and link.startswith("/")
        and not link.startswith("/dev/")
        and name_of(link, pid, None) == link
    ]
    for number, link in files[:MAX_POSITIONS]:
        info = proc.file_info(pid, number)
        position, flags = info.get(b"pos", b""), info.get(b"flags", b"")
        if position.isdigit():
            name = redact(link)
            offsets[name] = max(offsets.get(name, 0), int(position))
            if not flags.isdigit() or int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                written.add(name)
    return offsets, tuple(name for name in offsets if name not in written)


def with_files(
    host: Host, processes: Mapping[int, Process], ranks: Collection[int], sockets: Sockets
) -> Iterator[tuple[int, Process]]:
    """Add locks on files to processes; of ranks, how far they are in files and whom they await."""
    locks = FileLocks(host)
    silent = silences(host, ranks, time.time())
    passed = messages(host, ranks)
    for pid, process in processes.items():
        added = replace(process, lock=locks.awaited(pid), holds=locks.held(pid))
        if pid in ranks:
            offsets, only_read = positions(host.proc, pid)
            added = replace(
                added,
                locked_by_others=locks.of_others(pid),
                other_end=other_end(host, pid, sockets),
                awaits=awaited_connection(host, pid, sockets),
                positions=offsets,
                only_read=only_read,
                silent_for=silent.get(pid),
                messages=passed.get(pid),
            )
        yield pid, added


def silences(host: Host, pids: Iterable[int], now: float) -> dict[int, float]:
    """Return how many seconds ago something was written to the output or errors of each process."""
    names = {
        f"{host.proc.root}/{pid}/fd/{number}": pid
        for pid in pids
        for number in (1, _STANDARD)
        if host.proc.link_of(f"{pid}/fd/{number}") not in {None, "/dev/null"}
    }
    silent: dict[int, float] = {}
    for name, written in host.files.when_written(list(names)).items():
        if written is not None:
            silent[names[name]] = min(max(0.0, now - written), silent.get(names[name], now))
    return {pid: round(seconds, 1) for pid, seconds in silent.items()}


class _Lock(NamedTuple):
    """One line of /proc/locks."""

    number: bytes
    waits: bool
    inherited: bool  # by a child: that of flock(2) is of the open file, not of the process
    exclusive: bool
    pid: int
    inode: bytes


def _locks(table: bytes) -> Iterator[_Lock]:
    """Read /proc/locks, without the locks of no process that can be seen."""
    for line in table.splitlines():
        number, *fields = line.split()
        if waits := fields[:1] == [b"->"]:
            del fields[0]
        if len(fields) > 4 and fields[3].isdigit() and int(fields[3]) > 0:
            inode = fields[4].rpartition(b":")[2]
            of_file, exclusive = fields[0] == b"FLOCK", fields[2] == b"WRITE"
            yield _Lock(number, waits, of_file, exclusive, int(fields[3]), inode)


class FileLocks:
    """The kernel's table of locks at the moment when this is made."""

    def __init__(self, host: Host) -> None:
        self._host = host
        locks = list(_locks(host.proc.bytes_of("locks") or b""))
        wanted = {lock.number for lock in locks if lock.waits}
        held = (lock for lock in locks if not lock.waits and lock.number in wanted)
        holders = {lock.number: self._holding(lock) for lock in held}
        waiting = (lock for lock in locks if lock.waits and lock.number in holders)
        self._holders = {lock.pid: holders[lock.number] for lock in waiting}
        exclusive = [lock for lock in locks if lock.exclusive and not lock.waits]
        self._writers = {lock.pid for lock in exclusive}
        self._writer_of = {lock.inode: lock.pid for lock in exclusive}

    def _holding(self, lock: _Lock) -> int:
        """Return the process that keeps a lock: who took it may have closed the file.

        A child that has inherited it keeps it locked: fdinfo tells, the table does not.
        """
        if not lock.inherited or self._has_open(lock.pid, lock):
            return lock.pid
        heirs = (pid for pid in self._host.stats if pid != lock.pid and self._has_open(pid, lock))
        return next(heirs, lock.pid)

    def _has_open(self, pid: int, lock: _Lock) -> bool:
        infos = (self._host.proc.file_info(pid, n) for n in self._host.proc.open_files(pid))
        held = (info.get(b"lock", b"").split() for info in infos)
        file = b":" + lock.inode
        return any(b"FLOCK" in words and any(w.endswith(file) for w in words) for words in held)

    def awaited(self, pid: int) -> LockWait | None:
        """Describe the lock that a process waits for.

        Its file is named where the main thread is in a system call that locks one.
        """
        holder = self._holders.get(pid)
        if holder is None:
            return None
        call = self._host.system_call(pid)
        path = self._host.proc.link_of(f"{pid}/fd/{call.descriptor}") or ""
        locked = call.name in _LOCK_CALLS and path.startswith("/")
        return self._held_by(holder, path if locked else None)

    def held(self, pid: int) -> tuple[str, ...]:
        """Return the files on which a process has an exclusive lock."""
        if pid not in self._writers:
            return ()
        paths = (
            redact(link)
            for number, link in self._host.proc.open_files(pid).items()
            if link.startswith("/") and b"lock" in self._host.proc.file_info(pid, number)
        )
        return tuple(dict.fromkeys(paths))

    def of_others(self, pid: int) -> tuple[LockWait, ...]:
        """Return the exclusive locks of other processes on files that this one has open.

        Files are told apart by their inode, which /proc/PID/fdinfo holds since Linux 5.14.
        """
        proc, locks = self._host.proc, dict[LockWait, None]()
        for number, link in proc.open_files(pid).items() if self._writer_of else ():
            if link.startswith("/"):
                holder = self._writer_of.get(proc.file_info(pid, number).get(b"ino", b""))
                if holder is not None and holder != pid:
                    locks[self._held_by(holder, link)] = None
        return tuple(locks)

    def _held_by(self, holder: int, path: str | None) -> LockWait:
        known = holder in self._host.stats
        command = redact_command(self._host.arguments(holder)) if known else ""
        path = None if path is None else redact(path)
        return LockWait(holder_pid=holder, holder=command, path=path)


def messages(host: Host, pids: Iterable[int]) -> dict[int, int]:
    """Return a checksum of the segments that each process maps; without those that map none."""
    checksum = functools.cache(_checksum)
    sums: dict[int, int] = {}
    for pid in pids:
        names = {name.decode() for name in _SEGMENT.findall(host.memory(pid, "maps") or b"")}
        if names:
            parts = [checksum(path) for path in sorted(host.proc.path_for(pid, n) for n in names)]
            sums[pid] = zlib.crc32(repr(parts).encode())
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

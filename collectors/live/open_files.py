"""The files that a process has open: what they are, how far it is in them, and locks on them.

Locks are those of /proc/locks (proc(5), fs/locks.c). A line is a lock that is held; one with an
arrow, under the same number, waits for it. Locks that another host holds on a shared file system
are not in it, nor is a lock file that programs merely look for.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from whyhang.analyzer.facts import LockWait, Process, replace
from whyhang.analyzer.redact import redact, redact_command
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.other_ends import other_end
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.segments import messages
from whyhang.collectors.live.sockets import Sockets
from whyhang.collectors.live.syscalls import parse_syscall

MAX_LINES = 64
"""Lines kept; sockets and devices go before files."""

MAX_POSITIONS = 64
"""Files of one process whose position is read."""

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


def positions(proc: Proc, pid: int) -> dict[str, int]:
    """Read how far a process is in each regular file that it has open (proc(5), fdinfo).

    The furthest counts where a file is open several times. What it prints is left out.
    """
    offsets: dict[str, int] = {}
    files = [
        (number, link)
        for number, link in proc.open_files(pid).items()
        if number > _STANDARD
        and link.startswith("/")
        and not link.startswith("/dev/")
        and name_of(link, pid, None) == link
    ]
    for number, link in files[:MAX_POSITIONS]:
        position = proc.file_info(pid, number).get(b"pos", b"")
        if position.isdigit():
            name = redact(link)
            offsets[name] = max(offsets.get(name, 0), int(position))
    return offsets


def with_files(
    host: Host, processes: Mapping[int, Process], ranks: Collection[int], sockets: Sockets
) -> Iterator[tuple[int, Process]]:
    """Add locks on files to processes; of ranks, how far they are in files and whom they await."""
    table = host.proc.bytes_of("locks") or b""
    holders = lock_holders(table)
    holds = locked_files(host.proc, table, processes)
    others = locks_of_others(host, table, ranks)
    silent = silences(host, ranks, time.time())
    passed = messages(host, ranks)
    for pid, process in processes.items():
        added = replace(
            process,
            lock=lock_wait(host, pid, holders[pid]) if pid in holders else None,
            holds=holds.get(pid, ()),
            locked_by_others=tuple(others.get(pid, ())),
            other_end=other_end(host, pid, sockets) if pid in ranks else None,
            positions=positions(host.proc, pid) if pid in ranks else {},
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
            yield _Lock(number, waits, fields[2] == b"WRITE", int(fields[3]), inode)


def lock_holders(table: bytes) -> dict[int, int]:
    """Return who holds the lock that a process waits for, by pid, as /proc/locks tells."""
    holders = {lock.number: lock.pid for lock in _locks(table) if not lock.waits}
    waiting = (lock for lock in _locks(table) if lock.waits and lock.number in holders)
    return {lock.pid: holders[lock.number] for lock in waiting}


def lock_wait(host: Host, pid: int, holder: int) -> LockWait:
    """Describe a wait for a lock of ``holder``.

    The file is named where the main thread of ``pid`` is in a system call that locks one.
    """
    name, number = parse_syscall(host.system_call(pid)) or ("", None)
    path = host.proc.link_of(f"{pid}/fd/{number}") if name in _LOCK_CALLS else None
    return _held_by(host, holder, path if path is not None and path.startswith("/") else None)


def _held_by(host: Host, holder: int, path: str | None) -> LockWait:
    command = redact_command(host.arguments(holder)) if holder in host.stats else ""
    return LockWait(holder_pid=holder, holder=command, path=None if path is None else redact(path))


def locked_files(proc: Proc, table: bytes, pids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return for each of these processes the files on which it has an exclusive lock."""
    writers = {lock.pid for lock in _locks(table) if lock.exclusive and not lock.waits}
    locked = {}
    for pid in writers.intersection(pids):
        paths = [
            redact(link)
            for number, link in proc.open_files(pid).items()
            if link.startswith("/") and b"lock" in proc.file_info(pid, number)
        ]
        if paths:
            locked[pid] = tuple(dict.fromkeys(paths))
    return locked


def locks_of_others(host: Host, table: bytes, pids: Iterable[int]) -> dict[int, list[LockWait]]:
    """Return for each of these processes the exclusive locks of others on files that it has open.

    Files are told apart by their inode, which /proc/PID/fdinfo holds since Linux 5.14.
    """
    locks = _locks(table)
    writers = {lock.inode: lock.pid for lock in locks if lock.exclusive and not lock.waits}
    locked: dict[int, list[LockWait]] = {}
    for pid in pids if writers else ():
        links = {n: link for n, link in host.proc.open_files(pid).items() if link.startswith("/")}
        for number, link in links.items():
            holder = writers.get(host.proc.file_info(pid, number).get(b"ino", b""))
            if holder is not None and holder != pid:
                wait = _held_by(host, holder, link)
                if wait not in locked.setdefault(pid, []):
                    locked[pid].append(wait)
    return locked

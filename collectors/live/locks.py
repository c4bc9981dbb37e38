"""Who waits for whose lock on a file: /proc/locks (proc(5), fs/locks.c).

A line is a lock that is held; one with an arrow, under the same number, waits for it. Locks
that another host holds on a shared file system are not in it, nor is a lock file that
programs merely look for.
"""

from __future__ import annotations

from collections.abc import Iterable

from whyhang.analyzer.model import LockWait, replace
from whyhang.analyzer.redact import redact, redact_command
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.proc import Proc

_CALLS = ("flock(", "fcntl(")


def table(proc: Proc) -> bytes:
    """Read the kernel's table of locks on files."""
    return proc.bytes_of("locks") or b""


def waits(host: Host, table: bytes) -> dict[int, LockWait]:
    """Return for each process that waits for a lock on a file the process that holds it."""
    return {
        pid: LockWait(
            holder_pid=holder,
            holder=redact_command(host.arguments(holder)) if holder in host.stats else "",
        )
        for pid, holder in parse(table).items()
    }


def held(host: Host, table: bytes, pids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return for each of these processes the files on which it has an exclusive lock."""
    holders = set()
    for line in table.splitlines():
        field = line.split()
        if len(field) > 4 and field[3] == b"WRITE" and field[4].isdigit():
            holders.add(int(field[4]))
    found = {}
    for pid in holders.intersection(pids):
        paths = [
            redact(link)
            for number, link in host.proc.open_files(pid).items()
            if link.startswith("/")
            and b"lock:" in (host.proc.bytes_of(f"{pid}/fdinfo/{number}") or b"")
        ]
        if paths:
            found[pid] = tuple(dict.fromkeys(paths))
    return found


def parse(table: bytes) -> dict[int, int]:
    """Return pid to pid of the holder. Locks of no process that can be seen are left out."""
    holders: dict[bytes, int] = {}
    found: dict[int, int] = {}
    for line in table.splitlines():
        number, *field = line.split()
        waits_for_it = field[:1] == [b"->"]
        try:
            pid = int(field[4 if waits_for_it else 3])
        except (IndexError, ValueError):
            continue
        if not waits_for_it:
            holders[number] = pid
        elif holders.get(number, 0) > 0 and pid > 0:
            found[pid] = holders[number]
    return found


def with_path(wait: LockWait | None, syscall: str | None) -> LockWait | None:
    """Name the file, where the system call of the main thread tells: "flock(5: /a.lock)"."""
    if wait is None or syscall is None or not syscall.startswith(_CALLS):
        return wait
    path = syscall.partition(": ")[2].rstrip(")")
    return replace(wait, path=path) if path.startswith("/") else wait

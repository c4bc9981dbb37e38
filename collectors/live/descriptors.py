"""What the open files of a process point at, folded into a few lines, and how far it is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from whyhang.analyzer.redact import redact
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.sockets import Sockets

MAX_LINES = 64
"""Lines kept; sockets and devices go before files."""

_LIBRARY_PARTS = ("/site-packages/", "/dist-packages/", "/lib/python", "/usr/lib/", "/usr/share/")

MAX_POSITIONS = 64
"""Files of one process whose position is read."""

_STANDARD = 2  # the last of standard input, output and error


def positions(proc: Proc, pid: int) -> dict[str, int]:
    """Read how far a process is in each regular file that it has open (proc(5), fdinfo).

    The furthest counts where a file is open several times. What it prints is left out.
    """
    found: dict[str, int] = {}
    files = [
        (number, link)
        for number, link in proc.open_files(pid).items()
        if number > _STANDARD and link.startswith("/") and name_of(link, pid, None) == link
    ]
    for number, link in files[:MAX_POSITIONS]:
        if link.startswith("/dev/"):
            continue
        first = (proc.bytes_of(f"{pid}/fdinfo/{number}") or b"").split(b"\n", 1)[0]
        if first.startswith(b"pos:") and first[4:].strip().isdigit():
            name = redact(link)
            found[name] = max(found.get(name, 0), int(first[4:]))
    return found


def name_of(link: str, pid: int, sockets: Sockets | None) -> str | None:
    """Say what a descriptor points at, or None for what tells nothing (libraries, /dev/null)."""
    if link.startswith("socket:["):
        if sockets is None:
            return "socket"
        return sockets.name(pid, link[8:-1])
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
    counts = Counter(names)
    lines = [
        name if count == 1 else f"{name} x{count}"
        for name, count in sorted(counts.items(), key=lambda item: (_order(item[0]), item[0]))
    ]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"and {len(lines) - MAX_LINES + 1} more"]
    return tuple(lines)


def _order(name: str) -> int:
    if name.startswith(("tcp ", "udp ")):
        return 0
    if name.startswith("/dev/"):
        return 1
    return 2 if name.startswith("/") else 3


def descriptors(proc: Proc, pid: int, sockets: Sockets) -> tuple[str, ...]:
    """Sum up the open files of a process."""
    named = (name_of(link, pid, sockets) for link in proc.open_files(pid).values())
    return fold(name for name in named if name is not None)

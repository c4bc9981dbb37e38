"""Who has the other end of the pipe or of the connection at which a process waits (proc(5))."""

import struct

from whyhang.analyzer.facts import OtherEnd
from whyhang.analyzer.redact import redact_command
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.sockets import Sockets, owners
from whyhang.collectors.live.syscalls import parse_syscall

_POLLED = struct.Struct("ihh")
"""A descriptor among those of poll(2), with what is awaited there."""
MOST_POLLED = 8
_POLLS = ("do_sys_poll", "do_poll", "poll_schedule")
"""Kernel functions of a poll."""
_ACCESS = 3
"""The bits of an open file's flags that say whether it is read, written or both."""


def other_end(host: Host, pid: int, sockets: Sockets) -> OtherEnd | None:
    """Return the one process at the other end; None where none is seen, or several have it."""
    pids = {p for number in _awaited(host, pid) for p in _at_the_end(host, pid, number, sockets)}
    if len(pids) != 1:
        return None
    owner = pids.pop()
    return OtherEnd(pid=owner, command=redact_command(host.arguments(owner)))


def _awaited(host: Host, pid: int) -> list[int]:
    """List the descriptors on which the system call of the main thread waits.

    A poll that was interrupted, as by a dump of stacks, goes on under another number.
    """
    text = host.system_call(pid)
    name, number = parse_syscall(text) or ("", None)
    polls = (host.proc.wchan(pid) or "").lstrip("_").startswith(_POLLS)
    if number is not None or not (polls or name in {"poll", "ppoll"}):
        return [] if number is None else [number]
    address, count = (int(word, 16) for word in [*text.split(), "0", "0"][1:3])
    if count > MOST_POLLED:
        return []
    size = _POLLED.size * count
    memory = host.files.read(f"{host.proc.root}/{pid}/mem", start=address, most=size).data
    return [fd for fd, _, _ in _POLLED.iter_unpack(memory)] if len(memory) == size else []


def _at_the_end(host: Host, pid: int, number: int, sockets: Sockets) -> set[int]:
    link = host.proc.link_of(f"{pid}/fd/{number}") or ""
    if link.startswith("socket:["):
        inode = sockets.other_end(pid, link[8:-1])
        return set() if inode is None else owners(host, inode)
    if not link.startswith("pipe:["):
        return set()
    mode = _mode(host, pid, number)
    return {
        other
        for other in host.stats
        for n, its in host.proc.open_files(other).items()
        if other != pid and its == link and _mode(host, other, n) != mode
    }


def _mode(host: Host, pid: int, number: int) -> int:
    return int(host.proc.file_info(pid, number).get(b"flags", b"0"), 8) & _ACCESS

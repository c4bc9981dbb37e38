"""One process of a job as a ``Process`` record, read from /proc.

What is in a frozen control group (cgroups(7)) does not run, and no signal shows it. cgroup v2 tells
it in ``cgroup.events``, v1 in ``freezer.state`` (Documentation/admin-guide).
"""

import struct
import time
from collections.abc import Iterator
from pathlib import Path

from whyhang.analyzer.facts import SHARED_FUTEX, Process, Source, ThreadState, replace
from whyhang.analyzer.redact import redact, redact_command, redact_environment
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.open_files import descriptors, name_of
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.sockets import Sockets, is_pipe

MAX_PATH = 512
FIFO_OPENING = "wait_for_partner"
"""Kernel function of an open of a named pipe that waits for the other end (fs/pipe.c of Linux)."""
MOST_ASKED = 8
"""Threads beside the main thread whose system calls are read."""
_IDLE = (
    "futex", "do_futex", "ep_poll", "do_epoll", "poll_", "do_poll", "do_sys_poll", "do_select",
    "core_sys_select", "hrtimer_nanosleep", "do_nanosleep", "do_sigtimedwait", "sigsuspend",
)  # fmt: skip
_TIMESPEC = struct.Struct("qq")
"""Of time.h; /proc/PID/syscall tells where it lies."""
_BY_PATH = {"openat", "newfstatat", "statx"}
"""Calls whose second argument is a path."""


def describe(host: Host, member: JobProcess, hostname: str, sockets: Sockets) -> Process:
    """Read what stays the same from look to look: command line, environment, open files."""
    proc, pid = host.proc, member.pid
    stat = host.stats[pid]
    cwd = proc.link_of(f"{pid}/cwd")
    files = "\n".join(descriptors(proc, pid, sockets))
    process = Process(
        who=member.who(hostname),
        source=Source(file=f"{proc.root}/{pid}"),
        command=redact_command(host.arguments(pid)) or f"[{stat.comm}]",
        cwd=None if cwd is None else redact(cwd),
        environ=redact_environment(host.environ(pid)),
        started_at=proc.started_at(stat),
        descriptors=tuple(redact(files).split("\n")) if files else (),
    )
    return member.describes(process, hostname)


def observe(
    host: Host, known: Process, sockets: Sockets, *, look: int, now: float
) -> Process | None:
    """Read what changes: state, threads, place in the kernel. None if the process is gone."""
    proc, pid = host.proc, known.who.pid or 0
    stat, status = proc.stat(pid), proc.status(pid)
    if stat is None:
        return None
    threads = proc.threads(pid)
    asked = [threads[:1], [t for t in threads[1:] if _may_use_a_file(t)][:MOST_ASKED]]
    known_calls = {t.tid: _in_call(host, pid, t, sockets) for some in asked for t in some}
    threads = tuple(known_calls.get(thread.tid, thread) for thread in threads)
    tracer = status.tracer if status is not None else 0
    return replace(
        known,
        look=look,
        taken_at=now,
        state=stat.state,
        wchan=threads[0].wchan if threads else None,
        threads=threads,
        tracer_pid=tracer or None,
        tracer=redact_command(host.arguments(tracer)) or None if tracer else None,
        frozen=frozen(proc, pid),
        asleep_for=proc.asleep_for(pid) if stat.state == "S" else None,
    )


def _may_use_a_file(thread: ThreadState) -> bool:
    """Return whether a thread sleeps elsewhere than in a lock, a poll or a nap."""
    place = (thread.wchan or "").lstrip("_")
    return thread.state in {"S", "D"} and bool(place) and not place.startswith(_IDLE)


def _in_call(host: Host, pid: int, thread: ThreadState, sockets: Sockets) -> ThreadState:
    """Add the call that a thread waits in, and the file that it works on."""
    proc = host.proc
    if thread.state == "D":
        thread = replace(thread, kernel=proc.kernel_stack(pid, thread.tid))
    call = host.system_call(pid, thread.tid)
    if not call.name:
        return thread
    thread = replace(thread, limit=call.limit, sleeps_for=_sleeps_for(host, pid, call.end))
    if call.shared:
        return replace(thread, syscall=SHARED_FUTEX)
    link = proc.link_of(f"{pid}/fd/{call.descriptor}")
    if link is not None:
        known = redact(name_of(link, pid, sockets) or link)
        thread = replace(thread, syscall=f"{call.name}({call.descriptor}: {known})")
    else:
        link = _path_of(host, pid, call.arguments[1]) if call.name in _BY_PATH else ""
        thread = replace(thread, syscall=f"{call.name}({redact(link)})" if link else call.name)
    if not link.startswith("/"):
        return thread
    is_fifo = thread.wchan == FIFO_OPENING or is_pipe(thread.wchan)
    mount = "a fifo" if is_fifo else proc.mount_of(pid, link)[1] or None
    return replace(thread, file=redact(link), mount=mount)


def _sleeps_for(host: Host, pid: int, end: int | None) -> float | None:
    """Return for how many seconds more a thread sleeps that was given the time of its end.

    ``time.sleep`` and the waits of locks with a limit give that of the monotonic clock (Python 3.11
    and later), which counts the same in all processes of a host, but for those in a time namespace
    of their own.
    """
    if end is None or host.proc.foreign(pid, "time"):
        return None
    content = host.files.read(f"{host.proc.root}/{pid}/mem", start=end, most=_TIMESPEC.size)
    if len(content.data) < _TIMESPEC.size:
        return None
    seconds, nanoseconds = _TIMESPEC.unpack(content.data[: _TIMESPEC.size])
    return max(0.0, round(float(seconds + nanoseconds / 1e9 - time.monotonic()), 2))


def _path_of(host: Host, pid: int, address: int) -> str:
    """Read the path that a call was given out of the memory of its process."""
    content = host.files.read(f"{host.proc.root}/{pid}/mem", start=address, most=MAX_PATH)
    path = content.data.partition(b"\0")[0].decode(errors="replace")
    return path if path.isprintable() else ""


def control_groups(proc: Proc, pid: int, controllers: set[str]) -> Iterator[tuple[str, str]]:
    """Yield where a control group of a process is mounted, and its name below that.

    Of version 1 those that have one of these controllers, of version 2 the one that there is.
    """
    mounts = proc.mounts("self")
    for line in (proc.bytes_of(f"{pid}/cgroup") or b"").decode(errors="replace").splitlines():
        number, kinds, group = (*line.split(":", 2), "", "")[:3]
        wanted = controllers & set(kinds.split(","))
        for folder, kind in mounts.items():
            of_version_1 = kind.startswith("cgroup ") and wanted & set(Path(folder).name.split(","))
            if of_version_1 or (number == "0" and kind.startswith("cgroup2 ")):
                yield folder, group


def frozen(proc: Proc, pid: int) -> str | None:
    """Return the control group of a process if it is frozen."""
    for mount, group in control_groups(proc, pid, {"freezer"}):
        folder = Path(mount, group.lstrip("/"))
        events, state = words_in(folder / "cgroup.events"), words_in(folder / "freezer.state")
        if ["frozen", "1"] in events or ["FROZEN"] in state:
            return group
    return None


def words_in(path: Path) -> list[list[str]]:
    """Return the words of each line of a file; none where it cannot be read."""
    try:
        return [line.split() for line in path.read_text("utf-8", "replace").splitlines()]
    except OSError:
        return []

"""/proc of Linux: what the kernel tells of one process without touching it.

Formats are those of proc(5), as of Linux 6.7. Every read can fail at any moment, because
the process may end or belong to another user; what cannot be read is None or empty.

``cmdline``, ``environ`` and ``maps`` need the memory map of the target, and that lock may
be held for ever by a thread that sleeps on a dead file server (this is why ``ps`` hangs on
such hosts). They are therefore read by a helper thread which is left behind when it hangs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from whyhang.analyzer.model import Counters, Record, ThreadState

PATIENCE = 1.0
"""Seconds until a read of another process's memory counts as hanging."""

MAX_THREADS = 512
"""Threads looked at in one process; ``thread_count`` tells how many there are."""

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of linux/sched.h
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_READ_BYTES = 1 << 20


class Stat(Record):
    """What /proc/PID/stat tells. ``started`` is in clock ticks since boot."""

    pid: int
    comm: str
    state: str
    ppid: int
    session: int
    kernel: bool
    started: int
    cpu_ticks: int
    threads: int


class Status(Record):
    """What /proc/PID/status tells beyond that: owner, debugger, signals that wait."""

    uid: int
    tracer: int
    switches: int  # voluntary ones
    pending: int  # signals of the process and of its main thread, one bit each, bit 0 is signal 1


def parse_stat(data: bytes) -> Stat | None:
    """Take apart one stat line; the name may itself hold blanks and brackets."""
    try:
        pid, _, rest = data.partition(b" (")
        name, _, rest = rest.rpartition(b") ")
        field = rest.split()
        return Stat(
            pid=int(pid),
            comm=name.decode(errors="replace"),
            state=field[0].decode(),
            ppid=int(field[1]),
            session=int(field[3]),
            kernel=bool(int(field[6]) & _KERNEL_THREAD),
            started=int(field[19]),
            cpu_ticks=int(field[11]) + int(field[12]),
            threads=int(field[17]),
        )
    except (ValueError, IndexError):
        return None


def parse_status(data: bytes) -> Status:
    """Take apart a status file; what is not there counts as zero."""
    found: dict[bytes, bytes] = {}
    for line in data.splitlines():
        key, _, value = line.partition(b":")
        found[key] = value
    return Status(
        uid=_number(found.get(b"Uid")),
        tracer=_number(found.get(b"TracerPid")),
        switches=_number(found.get(b"voluntary_ctxt_switches")),
        pending=_number(found.get(b"SigPnd"), 16) | _number(found.get(b"ShdPnd"), 16),
    )


def _number(text: bytes | None, base: int = 10) -> int:
    words = (text or b"").split()
    try:
        return int(words[0], base) if words else 0
    except ValueError:
        return 0


class Proc:
    """Reads below one /proc. ``root`` is another folder in tests."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self._boot: float | None = None

    def bytes_of(self, path: str) -> bytes | None:
        """Read ``path`` below /proc at once, or None. For files that never block."""
        try:
            handle = os.open(f"{self.root}/{path}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return _read_all(handle)
        except OSError:
            return None
        finally:
            os.close(handle)

    def link_of(self, path: str) -> str | None:
        """Read a link below /proc (``PID/cwd``, ``PID/fd/3``), or None."""
        try:
            return os.readlink(f"{self.root}/{path}")  # noqa: PTH115 - called for every descriptor
        except OSError:
            return None

    def stat(self, pid: int, tid: int | None = None) -> Stat | None:
        """Read the stat line of a process, or of one of its threads."""
        data = self.bytes_of(f"{pid}/stat" if tid is None else f"{pid}/task/{tid}/stat")
        return parse_stat(data) if data else None

    def status(self, pid: int, tid: int | None = None) -> Status | None:
        """Read the status of a process, or of one of its threads."""
        data = self.bytes_of(f"{pid}/status" if tid is None else f"{pid}/task/{tid}/status")
        return parse_status(data) if data else None

    def process_of(self, tid: int) -> int | None:
        """Give the process that a thread belongs to; /proc/TID exists, though it is not listed."""
        for line in (self.bytes_of(f"{tid}/status") or b"").splitlines():
            if line.startswith(b"Tgid:"):
                return _number(line.partition(b":")[2])
        return None

    def table(self) -> dict[int, Stat]:
        """Read the stat line of every process of this host that is no kernel thread."""
        try:
            names = os.listdir(self.root)  # noqa: PTH208 - Path objects double the time
        except OSError:
            return {}
        stats = (self.stat(int(name)) for name in names if name.isdigit())
        return {stat.pid: stat for stat in stats if stat is not None and not stat.kernel}

    def owner(self, pid: int) -> int | None:
        """Give the user id that owns /proc/PID (0 for processes that hide their memory)."""
        try:
            return os.stat(f"{self.root}/{pid}").st_uid  # noqa: PTH116 - called for every process
        except OSError:
            return None

    def namespace(self, pid: int, kind: str) -> str | None:
        """Name the namespace ("net", "mnt", "pid") that the process lives in."""
        return self.link_of(f"{pid}/ns/{kind}")

    def path_for(self, pid: int, path: str) -> str:
        """Give the name under which this process finds a file that another one sees.

        A process in a container has other files; its own are found below /proc/PID/root.
        """
        theirs = self.namespace(pid, "mnt")
        same = theirs is None or theirs == self.link_of("self/ns/mnt")
        return path if same else f"{self.root}/{pid}/root{path}"

    def wchan(self, pid: int, tid: int | None = None) -> str | None:
        """Name the kernel function that a thread sleeps in; None where the kernel hides it."""
        data = self.bytes_of(f"{pid}/wchan" if tid is None else f"{pid}/task/{tid}/wchan")
        name = (data or b"").decode(errors="replace").strip()
        return None if name in {"", "0"} else name

    def counters(self, pid: int) -> Counters | None:
        """Read what the main thread has used and how often it was switched."""
        stat, status = self.stat(pid, pid), self.status(pid, pid)
        if stat is None or status is None:
            return None
        return Counters(cpu_ticks=stat.cpu_ticks, switches=status.switches)

    def thread_ids(self, pid: int) -> list[int]:
        """List the threads of a process, main thread first."""
        try:
            names = os.listdir(f"{self.root}/{pid}/task")  # noqa: PTH208
        except OSError:
            return []
        return sorted((int(name) for name in names), key=lambda tid: (tid != pid, tid))

    def threads(self, pid: int) -> tuple[ThreadState, ...]:
        """Read name, state and place in the kernel of each thread, main thread first."""
        found: list[ThreadState] = []
        for tid in self.thread_ids(pid)[:MAX_THREADS]:
            stat = self.stat(pid, tid)
            if stat is not None:
                wchan = None if stat.state == "R" else self.wchan(pid, tid)
                found.append(
                    ThreadState(
                        tid=tid,
                        name=stat.comm,
                        state=stat.state,
                        wchan=wchan,
                        cpu_ticks=stat.cpu_ticks,
                    )
                )
        return tuple(found)

    def started_at(self, stat: Stat) -> float | None:
        """Give the time at which a process started, in seconds since the epoch."""
        if self._boot is None:
            lines = (self.bytes_of("stat") or b"").splitlines()
            self._boot = next((float(x.split()[1]) for x in lines if x.startswith(b"btime ")), 0.0)
        return round(self._boot + stat.started / _TICKS, 2) if self._boot else None

    def memory_files(
        self, paths: Sequence[str], patience: float = PATIENCE
    ) -> dict[str, bytes | None]:
        """Read files that need the memory of other processes; those that hang are left out."""
        found: dict[str, bytes | None] = {}
        start = 0
        while start < len(paths):
            start += self._read_until_stuck(paths[start:], found, patience)
        return found

    def _read_until_stuck(
        self, paths: Sequence[str], found: dict[str, bytes | None], patience: float
    ) -> int:
        """Read in a helper thread; give how many of ``paths`` are dealt with."""
        results: list[bytes | None] = []
        done = threading.Event()

        def work() -> None:
            for path in paths:
                results.append(self.bytes_of(path))  # noqa: PERF401 - its length is the progress
            done.set()

        # a daemon, so that a thread stuck in the kernel does not keep whyhang from ending
        threading.Thread(target=work, daemon=True).start()
        count = -1
        while not done.wait(patience) and len(results) > count:
            count = len(results)
        read = list(results)
        found.update(zip(paths, read, strict=False))
        return len(read) if len(read) == len(paths) else len(read) + 1


def _read_all(handle: int) -> bytes:
    """Read a /proc file to its end; many are handed out a page at a time."""
    parts: list[bytes] = []
    while data := os.read(handle, _READ_BYTES):
        parts.append(data)
    return b"".join(parts)

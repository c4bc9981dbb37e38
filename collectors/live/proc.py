"""/proc of Linux: what the kernel tells of one process without touching it.

Formats are those of proc(5), as of Linux 6.7. Every read can fail at any moment, because
the process may end or belong to another user; what cannot be read is None or empty.

``cmdline``, ``environ``, ``maps`` and ``syscall`` need locks of the target and may hang; they are
read by ``files.py``.
"""

import os
import time
from collections.abc import Iterable
from pathlib import PurePosixPath

from whyhang.analyzer.facts import Counters, Record, ThreadState

MAX_DESCRIPTORS = 4096
"""Open files looked at in one process."""

MAX_KERNEL_FRAMES = 12

MAX_THREADS = 512
"""Threads looked at in one process."""

MOST_COUNTED = 16
"""Threads of one process whose switches are counted, to know a pause of all from a wake of one."""

RESTING = 0.5
"""Seconds without a switch from which a thread is at rest."""

WATCHING = 0.1
"""Seconds between two readings of threads that are watched."""

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of linux/sched.h
_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of linux/proc_ns.h
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


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
    exit_code: int = 0  # as wait(2) gives it; of others' processes not shown


class ProcStatus(Record):
    """What /proc/PID/status tells beyond that; ``process`` is that of a thread."""

    process: int
    tracer: int
    switches: int  # voluntary ones
    pending: int  # signals of the process and of its main thread, one bit each, bit 0 is signal 1
    inner: int = 0  # its id in the innermost namespace of pids that it is in


class Wakes(Record):
    """How often each thread went to sleep, and the nanoseconds that the main one was on a CPU."""

    switches: dict[int, int]
    ran: int | None  # kernels without CONFIG_SCHED_INFO do not tell


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
            exit_code=int(field[49]) if len(field) > 49 else 0,
        )
    except (ValueError, IndexError):
        return None


def parse_status(data: bytes) -> ProcStatus:
    """Take apart a status file; what is not there counts as zero."""
    pairs = (line.partition(b":") for line in data.splitlines())
    fields = {name: value for name, _, value in pairs}
    return ProcStatus(
        process=_number(fields.get(b"Tgid")),
        tracer=_number(fields.get(b"TracerPid")),
        switches=_number(fields.get(b"voluntary_ctxt_switches")),
        inner=_number(fields.get(b"NSpid", b"").rpartition(b"\t")[2]),
        pending=_number(fields.get(b"SigPnd"), 16) | _number(fields.get(b"ShdPnd"), 16),
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
            with open(f"{self.root}/{path}", "rb", buffering=0) as file:  # noqa: PTH123
                return file.readall()
        except OSError:
            return None

    def kernel_stack(self, pid: int, tid: int) -> tuple[str, ...]:
        """Return the kernel functions that a thread is in, innermost first; only root may know."""
        lines = (self.bytes_of(f"{_task(pid, tid)}/stack") or b"").decode(errors="replace")
        names = (line.rpartition("] ")[2].partition("+")[0] for line in lines.splitlines())
        return tuple(name for name in names if name)[:MAX_KERNEL_FRAMES]

    def link_of(self, path: str) -> str | None:
        """Read a link below /proc (``PID/cwd``, ``PID/fd/3``), or None."""
        try:
            return os.readlink(f"{self.root}/{path}")  # noqa: PTH115 - called for every descriptor
        except OSError:
            return None

    def open_files(self, pid: int) -> dict[int, str]:
        """Return what each open file of a process points at; empty where that may not be seen."""
        numbers = sorted(self._numbers(f"{pid}/fd"))[:MAX_DESCRIPTORS]
        links = ((number, self.link_of(f"{pid}/fd/{number}")) for number in numbers)
        return {number: link for number, link in links if link is not None}

    def file_info(self, pid: int, number: int) -> dict[bytes, bytes]:
        """Return what the kernel tells of an open file: pos, flags, ino, lock (proc(5), fdinfo)."""
        lines = (self.bytes_of(f"{pid}/fdinfo/{number}") or b"").splitlines()
        pairs = (line.partition(b":") for line in lines)
        return {name: value.strip() for name, _, value in pairs}

    def _numbers(self, folder: str) -> list[int]:
        """List the numbers that are names in a folder below /proc; none where it is closed."""
        try:
            names = os.listdir(f"{self.root}/{folder}")  # noqa: PTH208 - there may be thousands
        except OSError:
            return []
        return [int(name) for name in names if name.isdigit()]

    def stat(self, pid: int, tid: int | None = None) -> Stat | None:
        """Read the stat line of a process, or of one of its threads."""
        data = self.bytes_of(f"{_task(pid, tid)}/stat")
        return parse_stat(data) if data else None

    def status(self, pid: int, tid: int | None = None) -> ProcStatus | None:
        """Read the status of a process, or of one of its threads."""
        data = self.bytes_of(f"{_task(pid, tid)}/status")
        return parse_status(data) if data else None

    def table(self) -> dict[int, Stat]:
        """Read the stat line of every process of this host that is no kernel thread."""
        stats = (self.stat(pid) for pid in self._numbers(""))
        return {stat.pid: stat for stat in stats if stat is not None and not stat.kernel}

    def owner(self, pid: int) -> int | None:
        """Return the user id that owns /proc/PID (0 for processes that hide their memory)."""
        try:
            return os.stat(f"{self.root}/{pid}").st_uid  # noqa: PTH116 - called for every process
        except OSError:
            return None

    def namespace(self, pid: int, kind: str) -> str | None:
        """Name the namespace ("net", "mnt", "pid") that the process lives in."""
        return self.link_of(f"{pid}/ns/{kind}")

    def foreign(self, pid: int, kind: str) -> bool:
        """Return whether a process is known to live in another namespace than this one."""
        theirs, own = self.namespace(pid, kind), self.link_of(f"self/ns/{kind}")
        return None not in {theirs, own} and theirs != own

    def in_container(self) -> bool:
        """Return whether this process lives in a namespace of pids other than the host's first."""
        own = self.link_of("self/ns/pid")
        return own is not None and own != _FIRST_PID_NAMESPACE

    def path_for(self, pid: int, path: str) -> str:
        """Return the name under which this process finds a file as another one names it.

        A process in a container or with a root of its own has other files, which are found below
        /proc/PID/root. A relative name is below its working directory.
        """
        if not path.startswith("/"):
            return f"{self.root}/{pid}/cwd/{path}"
        own_root = self.link_of(f"{pid}/root") not in {None, "/"}
        return f"{self.root}/{pid}/root{path}" if own_root or self.foreign(pid, "mnt") else path

    def mounts(self, pid: int | str) -> dict[str, str]:
        """Return what a process sees mounted where: "nfs4 from server:/data" by its folder."""
        by_folder: dict[str, str] = {}
        table = (self.bytes_of(f"{pid}/mountinfo") or b"").decode(errors="replace")
        for line in table.splitlines():
            field, kind = (part.split() for part in (line + " - ").split(" - ")[:2])
            if len(field) > 4 and len(kind) > 1:
                by_folder[field[4].replace("\\040", " ")] = f"{kind[0]} from {kind[1]}"
        return by_folder

    def mount_of(self, pid: int | str, path: str) -> tuple[str, str]:
        """Return where that is mounted which a path lies on, and what it is; empty if not told."""
        mounts = self.mounts(pid)
        above = (folder for folder in mounts if PurePosixPath(path).is_relative_to(folder))
        folder = max(above, key=len, default="")
        return folder, mounts.get(folder, "")

    def wchan(self, pid: int, tid: int | None = None) -> str | None:
        """Name the kernel function that a thread sleeps in; None where the kernel hides it."""
        name = (self.bytes_of(f"{_task(pid, tid)}/wchan") or b"").decode(errors="replace").strip()
        return None if name in {"", "0"} else name

    def counters(self, pid: int) -> Counters | None:
        """Read what the main thread has used and how often it was switched."""
        stat, status = self.stat(pid, pid), self.status(pid, pid)
        if stat is None or status is None:
            return None
        return Counters(cpu_ticks=stat.cpu_ticks, switches=status.switches)

    def wakes(self, pid: int) -> Wakes:
        """Read how often the first threads of a process slept, and what the main one ran."""
        tids = self.thread_ids(pid)[:MOST_COUNTED]
        switches = {tid: status.switches for tid in tids if (status := self.status(pid, tid))}
        ran = (self.bytes_of(f"{_task(pid, pid)}/schedstat") or b"").split()
        return Wakes(switches=switches, ran=int(ran[0]) if ran else None)

    def asleep_for(self, pid: int) -> float | None:
        """Return how many seconds ago the main thread last ran, by the scheduler's own clock.

        That of this very process, which runs, says what time it is on that clock.
        """
        times = [
            float(line.rpartition(b":")[2])
            for path in ("self/sched", f"{_task(pid, pid)}/sched")
            for line in (self.bytes_of(path) or b"").splitlines()
            if line.startswith(b"se.exec_start")
        ]
        return round(max(0.0, times[0] - times[1]) / 1000, 2) if len(times) == 2 else None

    def asleep_in_kernel(self, pid: int) -> ThreadState | None:
        """Return a thread in uninterruptible sleep (D) if there is one at each of three readings.

        A thread that reads from a disk is in that state for moments, too.
        """
        for pause in (0.0, 0.02, 0.02):
            time.sleep(pause)
            sleeper = next((thread for thread in self.threads(pid) if thread.state == "D"), None)
            if sleeper is None:
                return None
        return sleeper

    def sleep_until_woken(self, pids: Iterable[int], most: float) -> None:
        """Sleep for ``most`` seconds, or until the main thread of one of these at rest runs.

        At rest is who did not go to sleep anew within ``RESTING`` seconds: naps and polls do.
        """
        end = time.monotonic() + most
        before = {pid: self._slept(pid) for pid in pids}
        time.sleep(min(RESTING, most))
        at_rest = {pid: slept for pid, slept in before.items() if slept == self._slept(pid)}
        while time.monotonic() < end and all(self._slept(p) == s for p, s in at_rest.items()):
            time.sleep(WATCHING)

    def _slept(self, pid: int) -> int:
        status = self.status(pid, pid)
        return status.switches if status is not None else -1

    def thread_ids(self, pid: int) -> list[int]:
        """List the threads of a process, main thread first."""
        return sorted(self._numbers(f"{pid}/task"), key=lambda tid: (tid != pid, tid))

    def threads(self, pid: int) -> tuple[ThreadState, ...]:
        """Read name, state and place in the kernel of each thread, main thread first."""
        states: list[ThreadState] = []
        contained = self.foreign(pid, "pid")
        for tid in self.thread_ids(pid)[:MAX_THREADS]:
            stat = self.stat(pid, tid)
            if stat is not None:
                status = self.status(pid, tid) if contained else None
                thread = ThreadState(
                    tid=tid,
                    name=stat.comm,
                    state=stat.state,
                    wchan=None if stat.state == "R" else self.wchan(pid, tid),
                    cpu_ticks=stat.cpu_ticks,
                    inner=status.inner or None if status is not None else None,
                )
                states.append(thread)
        return tuple(states)

    def started_at(self, stat: Stat) -> float | None:
        """Return the time at which a process started, in seconds since the epoch."""
        if self._boot is None:
            lines = (self.bytes_of("stat") or b"").splitlines()
            self._boot = next((float(x.split()[1]) for x in lines if x.startswith(b"btime ")), 0.0)
        return round(self._boot + stat.started / _TICKS, 2) if self._boot else None


def _task(pid: int, tid: int | None) -> str:
    return f"{pid}" if tid is None else f"{pid}/task/{tid}"

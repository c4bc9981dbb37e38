"""What holds a process back from below: its CPU quota, its memory limit, the load of its host.

Control groups of both versions are read as mounted below /sys/fs/cgroup (cgroups(7)); a limit
counts wherever above the process it is set. Said is only what is near a limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from whyhang.analyzer.model import Claim, Role, Source, Who
from whyhang.collectors.live.job.members import Member
from whyhang.collectors.live.proc import Proc

THROTTLED = 0.25  # share of the periods between two readings
FULL = 0.9  # of the memory limit, or of the memory of the host
CROWDED = 2.0  # runnable threads per processor
MAX_RANKS = 4096


class Pressure:
    """Reads the limits of a job's ranks when made, and again when asked for claims."""

    def __init__(self, proc: Proc, members: Iterable[Member], root: str = "/sys/fs/cgroup") -> None:
        self._proc = proc
        self._root = Path(root)
        self._groups: dict[int, tuple[Path, ...]] = {}
        self._places: dict[bytes, tuple[Path, ...]] = {}  # ranks mostly share their groups
        for member in members:
            if member.role is Role.RANK and len(self._groups) < MAX_RANKS:
                told = self._proc.bytes_of(f"{member.pid}/cgroup") or b""
                if told not in self._places:
                    self._places[told] = tuple(dict.fromkeys(self._folders(told)))
                self._groups[member.pid] = self._places[told]
        self._before = {f: self._stopped(f) for folders in self._places.values() for f in folders}

    def _folders(self, told: bytes) -> Iterator[Path]:
        """Give the folders of the control groups above a process, its own first."""
        for line in told.decode(errors="replace").split():
            _, kinds, path = (*line.split(":", 2), "", "")[:3]
            mounts = ("", "unified") if not kinds else (kinds, *kinds.split(","))
            if kinds and not {"cpu", "memory"} & set(kinds.split(",")):
                continue
            for mount in mounts:
                folder = self._root / mount / path.lstrip("/")
                while folder != self._root and self._root in folder.parents:
                    if folder.is_dir():
                        yield folder
                    folder = folder.parent
                if not mount and self._root.is_dir():
                    yield self._root

    def _stopped(self, folder: Path) -> tuple[int, int]:
        """Count the CPU periods of a group, and those in which it had used up its quota."""
        told = dict(line.split()[:2] for line in _lines(folder / "cpu.stat") if " " in line)
        return _whole(told.get("nr_periods")), _whole(told.get("nr_throttled"))

    def claims(self, hostname: str) -> Iterator[Claim]:
        """Say of each rank, and of the host, what is near its limit."""
        said = {f: tuple(self._of_group(f)) for folders in self._places.values() for f in folders}
        for pid, folders in self._groups.items():
            for folder in folders:
                for words in said[folder]:
                    yield _claim(words, folder, Who(host=hostname, pid=pid))
        if self._groups:
            for words, file in self._of_host():
                yield _claim(words, Path(file), Who(host=hostname))

    def _of_group(self, folder: Path) -> Iterator[str]:
        periods, stopped = (
            now - then
            for now, then in zip(
                self._stopped(folder), self._before.get(folder, (0, 0)), strict=True
            )
        )
        if periods > 0 and stopped / periods >= THROTTLED:
            yield f"its CPU quota stopped it in {stopped} of {periods} periods between the looks"
        used = _first(folder, "memory.current", "memory.usage_in_bytes")
        most = _first(folder, "memory.max", "memory.limit_in_bytes")
        if used and most and most < 1 << 60 and used / most >= FULL:
            yield f"its control group uses {used / most:.0%} of its {most / (1 << 30):.1f} GiB"
        for name in ("memory.events", "memory.oom_control"):
            told = dict(line.split()[:2] for line in _lines(folder / name) if " " in line)
            if kills := _whole(told.get("oom_kill")):
                yield f"the kernel has killed {kills} processes of its control group for memory"
                return

    def _of_host(self) -> Iterator[tuple[str, str]]:
        load = (self._proc.bytes_of("loadavg") or b"0").split()
        count = os.cpu_count() or 1
        if load and float(load[0]) > CROWDED * count:
            yield (
                f"the load of the host is {float(load[0]):.0f} on {count} processors",
                "/proc/loadavg",
            )
        memory = {
            line.split()[0]: _whole(line.split()[1])
            for line in (self._proc.bytes_of("meminfo") or b"").decode().splitlines()
            if len(line.split()) > 1
        }
        total, free = memory.get("MemTotal:", 0), memory.get("MemAvailable:", 0)
        if total and free / total <= 1 - FULL:
            yield f"{free / total:.0%} of the memory of the host is available", "/proc/meminfo"


def _claim(words: str, place: Path, who: Who) -> Claim:
    return Claim(about="pressure", value=words, who=who, source=Source(file=str(place)))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _first(folder: Path, *names: str) -> int:
    return next((n for name in names for line in _lines(folder / name) if (n := _whole(line))), 0)


def _whole(text: str | None) -> int:
    return int(text) if text is not None and text.strip().isdecimal() else 0

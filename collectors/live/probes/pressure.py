"""What holds a process back from below: its CPU quota, its memory limit, the load of its host.

Control groups of both versions are read as mounted below /sys/fs/cgroup (cgroups(7)); a limit
counts wherever above the process it is set. Said is only what is near a limit.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from whyhang.analyzer.facts import NearLimit, Source, Who, replace
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.proc import Proc

THROTTLED = 0.25  # share of the periods between two readings
FULL = 0.9  # of the memory limit, or of the memory of the host
CROWDED = 2.0  # runnable threads per processor
MAX_RANKS = 4096


def collect(site: Site, collected: Collected) -> None:
    """Read what changes now and when the last look is over."""
    pressure = Pressure(site.host.proc, site.job.ranks)
    site.wait_for_last()
    collected.facts += pressure.facts(site.hostname)


class Pressure:
    """Reads the limits of a job's ranks when made, and again when asked which are near."""

    def __init__(
        self, proc: Proc, ranks: Iterable[JobProcess], root: str = "/sys/fs/cgroup"
    ) -> None:
        self._proc = proc
        self._root = Path(root)
        self._groups: dict[int, tuple[Path, ...]] = {}
        self._places: dict[bytes, tuple[Path, ...]] = {}  # ranks mostly share their groups
        for pid in [member.pid for member in ranks][:MAX_RANKS]:
            table = self._proc.bytes_of(f"{pid}/cgroup") or b""
            if table not in self._places:
                self._places[table] = tuple(dict.fromkeys(self._folders(table)))
            self._groups[pid] = self._places[table]
        self._before = {f: self._stopped(f) for folders in self._places.values() for f in folders}

    def _folders(self, table: bytes) -> Iterator[Path]:
        """Return the folders of the control groups above a process, its own first."""
        for line in table.decode(errors="replace").split():
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
        counts = _table(folder / "cpu.stat")
        return counts.get("nr_periods", 0), counts.get("nr_throttled", 0)

    def facts(self, hostname: str) -> Iterator[NearLimit]:
        """Say of each rank, and of the host, what is near its limit."""
        host = Who(host=hostname)
        limits = {
            folder: tuple(self._of_group(folder, host))
            for folders in self._places.values()
            for folder in folders
        }
        for pid, folders in self._groups.items():
            for folder in folders:
                who = Who(host=hostname, pid=pid)
                yield from (replace(fact, who=who) for fact in limits[folder])
        if self._groups:
            yield from self._of_host(host)

    def _of_group(self, folder: Path, who: Who) -> Iterator[NearLimit]:
        periods, stopped = (
            now - then
            for now, then in zip(
                self._stopped(folder), self._before.get(folder, (0, 0)), strict=True
            )
        )
        at = Source(file=str(folder))
        if periods > 0 and stopped / periods >= THROTTLED:
            yield NearLimit(limit="cpu-quota", measured=stopped, of=periods, who=who, source=at)
        used = _first(folder, "memory.current", "memory.usage_in_bytes")
        most = _first(folder, "memory.max", "memory.limit_in_bytes")
        if used and most and most < 1 << 60 and used / most >= FULL:
            share, size = round(used / most, 2), round(most / (1 << 30), 1)
            yield NearLimit(limit="group-memory", measured=share, size=size, who=who, source=at)
        for name in ("memory.events", "memory.oom_control"):
            if kills := _table(folder / name).get("oom_kill"):
                yield NearLimit(limit="oom-kills", measured=kills, who=who, source=at)
                return

    def _of_host(self, who: Who) -> Iterator[NearLimit]:
        load = (self._proc.bytes_of("loadavg") or b"0").split()
        count = os.cpu_count() or 1
        if load and float(load[0]) > CROWDED * count:
            at = Source(file="/proc/loadavg")
            now = round(float(load[0]))
            yield NearLimit(limit="load", measured=now, size=count, who=who, source=at)
        memory = _table(Path(self._proc.root, "meminfo"))
        total, free = memory.get("MemTotal:", 0), memory.get("MemAvailable:", 0)
        if total and free / total <= 1 - FULL:
            at, share = Source(file="/proc/meminfo"), round(free / total, 2)
            yield NearLimit(limit="host-memory", measured=share, who=who, source=at)


def _lines(path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in path.read_text("utf-8", "replace").splitlines()]
    except OSError:
        return []


def _table(path: Path) -> dict[str, int]:
    """Read lines of a name and a number."""
    rows = (line for line in _lines(path) if len(line) > 1)
    return {name: int(number) for name, number, *_ in rows if number.isdecimal()}


def _first(folder: Path, *names: str) -> int:
    """Read the number in the first of these files that holds one; "max" is none."""
    texts = (word for name in names for line in _lines(folder / name) for word in line[:1])
    return next((int(word) for word in texts if word.isdecimal()), 0)


PROBE = Probe(name="what holds the ranks back", limit=1.0, collect=collect)

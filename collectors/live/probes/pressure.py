"""What holds a process back from below: its CPU quota, its memory limit, the load of its host.

A limit counts wherever above the process it is set. Said is only what is near one.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from whyhang.analyzer.facts import NearLimit, Source, Who, replace, whole
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.process import control_groups, words_in

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

    def __init__(self, proc: Proc, ranks: Iterable[JobProcess]) -> None:
        self._proc = proc
        pids = [member.pid for member in ranks][:MAX_RANKS]
        self._groups = {pid: _groups_above(proc, pid) for pid in pids}
        self._before = {f: _stopped(f) for groups in self._groups.values() for f in groups}

    def facts(self, hostname: str) -> Iterator[NearLimit]:
        """Say of each rank, and of the host, what is near its limit."""
        host = Who(host=hostname)
        limits = {folder: tuple(self._of_group(folder, host)) for folder in self._before}
        for pid, folders in self._groups.items():
            who = Who(host=hostname, pid=pid)
            yield from (replace(fact, who=who) for folder in folders for fact in limits[folder])
        if self._groups:
            yield from self._of_host(host)

    def _of_group(self, folder: Path, who: Who) -> Iterator[NearLimit]:
        counts = zip(_stopped(folder), self._before[folder], strict=True)
        periods, stopped = (now - then for now, then in counts)
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


def _groups_above(proc: Proc, pid: int) -> tuple[Path, ...]:
    """Return the folders of the control groups that a process is in, the innermost first."""
    own = (
        (Path(mount), Path(mount, group.lstrip("/")))
        for mount, group in control_groups(proc, pid, {"cpu", "memory"})
    )
    above = (
        folder
        for mount, group in own
        for folder in (group, *group.parents)
        if folder.is_relative_to(mount) and folder.is_dir()
    )
    return tuple(dict.fromkeys(above))


def _stopped(folder: Path) -> tuple[int, int]:
    """Count the CPU periods of a group, and those in which it had used up its quota."""
    counts = _table(folder / "cpu.stat")
    return counts.get("nr_periods", 0), counts.get("nr_throttled", 0)


def _table(path: Path) -> dict[str, int]:
    """Read lines of a name and a number."""
    rows = (line for line in words_in(path) if len(line) > 1)
    numbers = ((name, whole(text)) for name, text, *_ in rows)
    return {name: number for name, number in numbers if number is not None}


def _first(folder: Path, *names: str) -> int:
    """Read the number in the first of these files that holds one; "max" is none."""
    texts = (word for name in names for line in words_in(folder / name) for word in line[:1])
    return next((number for number in map(whole, texts) if number is not None), 0)


PROBE = Probe(name="what holds the ranks back", limit=1.0, collect=collect)

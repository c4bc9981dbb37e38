"""Looks at the processes of a job: what they note, write, read, and whether they are there.

Nothing is paused and no rank is asked: all is read from /proc, and from the job's logs through the
descriptors of those that write them; NVML tells whether its GPUs compute.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from whyhang._heartbeat import SIZE
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Role, counted
from whyhang.analyzer.facts.processes import ENDED_STATES
from whyhang.collectors.flight_recorder.places import left_behind, prefixes
from whyhang.collectors.flight_recorder.reader import time_limits_of
from whyhang.collectors.heartbeat import parse
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob, JobProcess
from whyhang.collectors.live.probes import heartbeats, logs
from whyhang.collectors.live.probes.probe import Options, Site
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.watch.course import JOB, Look
from whyhang.collectors.watch.deadline import ends_in, killed_after
from whyhang.collectors.watch.gpus import Gpus
from whyhang.collectors.watch.outputs import growth

MAX_LOGS = 64
EXITING = 5.0
"""Seconds in which a launcher starts its ranks anew, or ends."""


class Processes:
    """A job that is followed by its processes. Raises ``TargetError`` if there is none."""

    def __init__(self, pid: int) -> None:
        self.target = pid
        self.proc = Proc()
        self.exits: dict[int, str] = {}
        self._sizes: dict[str, int] = {}
        self._start = ""
        self._seen_logs: dict[str, None] = {}
        self._gpus = Gpus()
        self._on_gpus = False
        self._find(pid)
        self._top = self._anchors()[0]

    @property
    def pids(self) -> tuple[int, ...]:
        """A process by which the job is found."""
        alive = [pid for pid in self._anchors() if self._lives(pid)]
        return tuple(alive[:1])

    @property
    def paths(self) -> tuple[str, ...]:
        """The logs of a job whose processes have ended, as far as they can still be read."""
        return () if self.pids else tuple(path for path in self._seen_logs if Path(path).is_file())

    def in_words(self) -> str:
        """Say what is looked at: how many processes, and what they give as signs."""
        counts = {
            "process": len(self._watched),
            "heartbeat": len(self._beats),
            "log": len(self._logs),
            "GPU": len(self._gpus),
        }
        return ", ".join(counted(count, noun) for noun, count in counts.items() if count)

    def killed_after(self) -> float | None:
        """Return after how many seconds of a hang a watchdog ends the job, as far as is known."""
        ranks = self.job.ranks or list(self.job.members)
        if not ranks:
            return None
        environ = self.host.environ(ranks[0].pid)
        maps = self.host.memory(ranks[0].pid, "maps") or b""
        dumps = left_behind(environ)
        recorded = {
            limit
            for path in (dumps.files[:2] if dumps is not None else ())
            for limit in time_limits_of(self.host.files.read(path).data)
        }
        return killed_after(
            self.host.arguments(ranks[0].pid),
            environ,
            nccl=b"libnccl" in maps and b"/dev/nvidia" in maps,
            recorded=recorded,
        )

    def ends_in(self) -> float | None:
        """Return in how many seconds the allocation of the job ends."""
        return ends_in(self.host.environ(self.target)) if self.target in self.host.stats else None

    def look(self) -> Look:
        """Look now; where processes are gone, find those that took their place, or the end."""
        at = time.monotonic()
        complete = self._watched and all(self._lives(member.pid) for member in self._watched)
        if not complete and not self._finds_again():
            self._gpus.end()
            return Look(at=at, over=self._how_it_ended())
        signs: dict[tuple[str, str], int] = {}
        stirs: dict[tuple[str, str], int] = {}
        for member in self._watched:
            self._count(member, stirs)
        if self._uses_gpus():
            names = {member.pid: _name(member) for member in self._watched}
            stirs |= {(who, "gpu"): work for who, work in self._gpus.work(names).items()}
        self._read_beats(signs)
        grown, alarms = growth(self.host.files, self._logs, self._sizes, first=True)
        alarms += self._dumps()
        signs |= grown
        return Look(at=at, signs=signs, stirs=stirs, alarms=tuple(alarms), start=self._start)

    def _find(self, pid: int) -> None:
        self.host = Host(self.proc)
        self.job: HostJob = find_job(self.host, pid)
        members = [m for m in self.job.members if m.role is not Role.LAUNCHER]
        self._watched = self.job.ranks or [m for m in members if m.python] or list(members)
        self._starts = {
            m.pid: self.host.stats[m.pid].started
            for m in self.job.members
            if m.pid in self.host.stats
        }
        own = {f"{m.pid}.{self._starts.get(m.pid)}" for m in self._watched}
        # Between two starts a launcher is alone, after those of its ranks that end last.
        if (self.job.ranks or not self._start) and not own <= set(self._start.split()):
            self._start = " ".join(sorted(own))
        self._find_beats()
        self._logs = dict(self._open_logs())
        self._began = time.time()

    def _anchors(self) -> list[int]:
        """List the processes by which the job is found again: launchers first, then ranks."""
        launchers = [
            m.pid
            for m in self.job.members
            # a program above the ranks that is no launcher may go on without them
            if m.role is Role.LAUNCHER and (self.host.launcher(m.pid) or m.pid == self.target)
        ]
        watched = [m.pid for m in self._watched]
        return list(dict.fromkeys([*reversed(launchers), *watched, self.target]))

    def _lives(self, pid: int) -> bool:
        stat = self.proc.stat(pid)
        if stat is None or stat.started != self._starts.get(pid, stat.started):
            return False
        if stat.state in ENDED_STATES:
            signal, code = os.WTERMSIG(stat.exit_code), os.WEXITSTATUS(stat.exit_code)
            self.exits[pid] = f"signal {signal}" if signal else f"exit code {code}"
            return False
        return True

    def _finds_again(self) -> bool:
        """Find the job again by a launcher or rank that is left; a launcher gets a moment."""
        until = time.monotonic() + EXITING
        while alive := [pid for pid in self._anchors() if self._lives(pid)]:
            for pid in alive:
                try:
                    self._find(pid)
                except TargetError:
                    continue
                return True
            if time.monotonic() > until:
                return True  # it is there, and nothing can be said of it now
            time.sleep(0.5)
        return False

    def _how_it_ended(self) -> str:
        how = self.exits.get(self._top)
        ended = [m for m in self._watched if m.pid in self.exits]
        rank = "".join(f"; {_name(m)} with {self.exits[m.pid]}" for m in ended[:1])
        if how is None:
            return f"process {self._top} is gone; how it ended its parent knows{rank}"
        return f"process {self._top} has ended with {how}{rank}"

    def _count(self, member: JobProcess, stirs: dict[tuple[str, str], int]) -> None:
        """Count how often the main thread slept, and what the process read and wrote."""
        who = _name(member)
        status = self.proc.status(member.pid, member.pid)
        if status is not None:
            stirs[who, "sleeps"] = status.switches
        table = (self.proc.bytes_of(f"{member.pid}/io") or b"").split()
        if len(table) > 3:
            stirs[who, "bytes"] = (int(table[1]) + int(table[3])) >> 12

    def _uses_gpus(self) -> bool:
        """Return whether the job has begun to use CUDA, by the files of its first rank."""
        if not self._on_gpus and self._gpus.there and self._watched:
            links = self.proc.open_files(self._watched[0].pid).values()
            self._on_gpus = "/dev/nvidia-uvm" in links
        return self._on_gpus

    def _find_beats(self) -> None:
        paths = ((m, heartbeats.file_of(self.proc, m.pid)) for m in self._watched)
        self._beats = {path: _name(member) for member, path in paths if path is not None}

    def _read_beats(self, signs: dict[tuple[str, str], int]) -> None:
        if not self._beats:
            self._find_beats()
        for path, content in self.host.files.read_all(list(self._beats), most=SIZE).items():
            beat = parse(content.data.decode("utf-8", "replace"))
            if beat is not None:
                signs[self._beats[path], "beats"] = beat.beats

    def _open_logs(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield where each log is read, with whose it is and what it is called."""
        site = Site(self.host, self.job, os.uname().nodename, Options())
        names = {member.pid: _name(member) for member in self._watched}
        own: set[tuple[int | None, int | None]] = set()
        for number in (1, 2):
            with contextlib.suppress(OSError):
                facts = os.fstat(number)
                own.add((facts.st_dev, facts.st_ino))
        seen: set[tuple[int | None, int | None]] = set()
        for path, shown, who in logs.candidates(site):
            content = self.host.files.read(path, most=0)
            identity = (content.device, content.inode)
            if not content.is_file or identity in own | seen or len(seen) >= MAX_LOGS:
                continue
            seen.add(identity)
            self._sizes.setdefault(path, content.length or 0)
            self._seen_logs.setdefault(self.proc.path_for(who.pid, shown) if who.pid else shown)
            yield path, (names.get(who.pid or 0, JOB), shown)

    def _dumps(self) -> Iterable[str]:
        """Say where recorder dumps were written since the job was found: its end is near."""
        for member in self._watched[:1]:
            for prefix in prefixes(self.host.environ(member.pid)):
                path = self.proc.path_for(member.pid, f"{prefix}{member.rank or 0}")
                written = self.host.files.when_written([path])[path]
                if written is not None and written > self._began:
                    yield f"{prefix}{member.rank or 0} was written: the recorder's dump of a hang"


def _name(member: JobProcess) -> str:
    return f"rank {member.rank}" if member.rank is not None else f"pid {member.pid}"

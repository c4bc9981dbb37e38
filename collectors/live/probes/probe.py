"""What a probe is: one kind of evidence of a live job beside its stacks, in a thread of its own.

All probes begin when the first snapshot has shown who the ranks are, and run beside the further
ones. Each has a time limit. What it brings goes into the bundle; what it could not bring is a gap.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from whyhang.analyzer.facts import Fact, InitArguments, Process, Record, Who
from whyhang.collectors.files.bundle import Entry
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob, JobProcess
from whyhang.collectors.live.snapshot import Snapshot
from whyhang.collectors.live.words import gap


class Options(Record):
    """How to look: how often, how many seconds apart, how many seconds each grab may take.

    ``native``: take native frames as well, in every look. ``ask``: have the ranks write their
    recorders' dumps; ``debug_server``: "host:port" of torch's, to be asked for them. ``store``:
    read the keys of the job's store. ``probe``: try from here where the ranks are to meet.
    ``others_logs``: files that another host reads, by ``logs.identity``.
    """

    looks: int = 2
    interval: float = 1.0
    limit: float = 15.0
    native: bool = False
    ask: bool = False
    debug_server: str | None = None
    store: bool = True
    probe: bool = False
    others_logs: frozenset[str] = frozenset()


class BundleFile(Record):
    """A file of the bundle as a probe makes it: its path is within the host's folder."""

    entry: Entry
    data: bytes


@dataclass
class Collected:
    """What a probe brings: facts (gaps among them), files, and in words what it did to the job."""

    facts: list[Fact] = field(default_factory=list)
    files: list[BundleFile] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)


class Site:
    """A job on this host, as probes see it: what was found, and what the snapshots have shown.

    ``spots`` is what ranks in ``init_process_group`` were told. The list of snapshots grows until
    it is ``over``. ``logs`` are those that were seen open, by their path: their writers, and whose
    each is; they are found again when their processes have ended.
    """

    def __init__(self, host: Host, job: HostJob, hostname: str, options: Options) -> None:
        self.host = host
        self.job = job
        self.hostname = hostname
        self.options = options
        self.snapshots: list[Snapshot] = []
        self.spots: tuple[InitArguments, ...] = ()
        self.logs: dict[str, tuple[frozenset[JobProcess], Who]] = {}
        self.over = False
        self._changed = threading.Condition()

    def file(self, path: str, kind: str, data: bytes, **about: Any) -> BundleFile:
        """Make a file of the bundle, of this host unless ``about``, further fields, says other."""
        entry = Entry(path=path, kind=kind, **{"host": self.hostname, **about})
        return BundleFile(entry=entry, data=data)

    @property
    def ranks_seen(self) -> list[Process]:
        """What the first snapshot saw of the ranks."""
        return [self.processes[rank.pid] for rank in self.job.ranks if rank.pid in self.processes]

    @property
    def processes(self) -> Mapping[int, Process]:
        """What the first snapshot saw of each process."""
        return self.snapshots[0].processes if self.snapshots else {}

    def wait_for(self, number: int) -> bool:
        """Wait until a snapshot begins; return False where none of that number will come."""
        with self._changed:
            self._changed.wait_for(lambda: self.over or len(self.snapshots) > number)
        return len(self.snapshots) > number

    def wait_for_last(self) -> None:
        """Wait until the last snapshot has been taken."""
        with self._changed:
            self._changed.wait_for(lambda: self.over)

    def wake(self, *, over: bool = False) -> None:
        """Wake who waits: a snapshot has begun, or the last one is over."""
        with self._changed:
            self.over = over
            self._changed.notify_all()


class Probe(Record):
    """One kind of evidence.

    ``limit`` is how many seconds it has beyond the last snapshot; what ``collect`` has brought when
    its time is up counts.
    """

    name: str
    limit: float
    collect: Callable[[Site, Collected], None]


class Running:
    """A probe under way."""

    def __init__(self, probe: Probe, site: Site) -> None:
        self.probe = probe
        self._hostname = site.hostname
        self._collected = Collected()
        self._error: BaseException | None = None
        # a daemon, so that nothing here keeps whyhang from ending
        self._thread = threading.Thread(target=self._work, args=(site,), daemon=True)
        self._thread.start()

    def _work(self, site: Site) -> None:
        try:
            self.probe.collect(site, self._collected)
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._error = error

    def finish(self, last: float) -> Collected:
        """Return what it brings, at the latest its limit after the ``last`` snapshot."""
        self._thread.join(max(0.0, last + self.probe.limit - time.monotonic()))
        if self._error is not None:
            raise self._error
        collected = replace(self._collected, facts=list(self._collected.facts))
        if self._thread.is_alive():
            about, name, limit = Who(host=self._hostname), self.probe.name, self.probe.limit
            collected.facts.append(gap("late-probe", about, name=name, limit=limit))
        return collected

"""Take the evidence of a live job: pid, its job, snapshots of it with probes beside them, a bundle.

Read-only: nothing is run in the target, and it is paused only for the milliseconds that py-spy
needs. Its store is asked for the names of its keys; nothing else is sent to it. What was done is
recorded in the bundle.
"""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from whyhang import __version__
from whyhang.analyzer.facts import (
    Fact,
    InitArguments,
    PartOfHost,
    Paused,
    Process,
    Role,
    StepsWritten,
    StepsWrittenBefore,
    Who,
    counted,
)
from whyhang.collectors.files.bundle import Bundle, Manifest, time_text
from whyhang.collectors.files.claims import CLAIMS
from whyhang.collectors.live.bundling import bundle_of
from whyhang.collectors.live.call_arguments import counts_of_loops, parsed, read_arguments, sites
from whyhang.collectors.live.frame_variables import (
    MOST,
    read_counters,
    read_numbers,
    read_spot,
    starting,
)
from whyhang.collectors.live.job.by_stacks import number, settle, whom_to_ask
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import JobProcess, ended, worth_reading
from whyhang.collectors.live.probes import PROBES, log_growth, logs
from whyhang.collectors.live.probes.probe import Collected, Options, Running, Site
from whyhang.collectors.live.probes.source_lines import MAX_BYTES, excerpts, stands
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.programs import Outcome
from whyhang.collectors.live.snapshot import Dump, Snapshot
from whyhang.collectors.stacks.pyspy_json import peers_only

GOLDEN = 0.618034  # its multiples keep away from each other

More: TypeAlias = Literal["native_stacks", "peers", "counters"]
"""What may be taken of single processes, where the snapshots leave a question open."""


class Named(NamedTuple):
    """A process: its host, where that is known, and its pid there."""

    host: str | None
    pid: int


class Capture(Site):
    """A job under observation on this host, and what was taken of it so far."""

    def __init__(
        self,
        pid: int,
        options: Options,
        tell: Callable[[str], None],
        *,
        hostname: str | None = None,
    ) -> None:
        """Find the job of ``pid``. Raises ``TargetError`` if there is none.

        ``tell`` is called with what is being done, in a few words, for a person who waits.
        """
        tell(f"finding the job of process {pid}")
        host = Host(Proc())
        super().__init__(host, find_job(host, pid), hostname or os.uname().nodename, options)
        self.target = pid
        self.created_at = time.time()
        self._tell = tell
        self._known: dict[int, Process] = {}
        self._native: list[Snapshot] = []
        self._peers: list[Dump] = []
        self._collected: list[Collected] = []
        self._facts: list[Fact] = [*self.job.left_out, *ended(host, self.job, self.hostname)]
        self._touched: list[str] = []
        self._log_sizes: dict[str, int] = {}
        self._steps: list[StepsWritten] = []  # since the snapshots before the last ones
        self._steps_before: list[StepsWrittenBefore] = []

    def note(self, facts: Iterable[Fact]) -> None:
        """Add facts that were learnt otherwise."""
        self._facts += facts

    def take(self, seen: Callable[[], None] = lambda: None) -> Capture:
        """Take all snapshots; the first tells which processes are ranks, and starts the probes.

        ``seen`` is called once that is known. Returns itself.
        """
        log_growth.sizes(self)  # so that they are known if the job ends during the first snapshot
        self._take_snapshot()
        self._settle()
        self.spots = self._ask_for_spots()
        self._log_sizes = log_growth.sizes(self)
        running = [Running(probe, self) for probe in PROBES]
        try:
            seen()
            for _ in range(1, self.options.looks):
                self._wait()
                self._take_snapshot()
        finally:
            self.wake(over=True)
        last = time.monotonic()
        for each in running:
            self._tell(f"waiting for {each.probe.name}")
            self._collected.append(each.finish(last))
        return self

    def look_more(self, count: int, *, spacing: float = 1.0) -> None:
        """Take further snapshots, where the first ones left open whether the job moves.

        They are ``spacing`` times the interval from each other, or less where that is long and a
        rank that slept wakes up.
        """
        begun = len(self.snapshots)
        for _ in range(count):
            self._wait(spacing)
            self._take_snapshot()
        # the probes that read them saw the first snapshots only
        self._facts += excerpts(self.host, stands(self.snapshots[begun:]))
        self._steps_before += [
            StepsWrittenBefore(text=step.text, who=step.who, source=step.source)
            for step in self._steps
        ]
        self._steps = list(log_growth.steps_written(self, self._log_sizes))
        before, self._log_sizes = self._log_sizes, log_growth.sizes(self)
        if self._log_sizes != before:
            self._read_logs_again()

    def _read_logs_again(self) -> None:
        """Read logs that have grown; of processes that have ended what was read stays."""
        at = PROBES.index(logs.PROBE)
        collected = Running(logs.PROBE, self).finish(time.monotonic())
        if len(collected.files) >= len(self._collected[at].files):
            self._collected[at] = collected

    def take_more(self, what: More, processes: Iterable[Named]) -> None:
        """Take more of some processes."""
        takers = {
            "native_stacks": self._take_native_stacks,
            "peers": self._take_peers,
            "counters": self._take_counters,
        }
        takers[what]([process.pid for process in processes])

    def _take_native_stacks(self, pids: Collection[int]) -> None:
        """Take native stacks of some processes, about a second each, as part of the last look."""
        members = [m for m in self.job.members if m.pid in pids and m.python]
        self._tell(f"native stacks of {counted(len(members), 'process')}")
        snapshot = self._new_snapshot(max(0, len(self.snapshots) - 1), native=True)
        self._native.append(snapshot)
        snapshot.take(members, {member.pid for member in members})

    def _take_peers(self, pids: Collection[int]) -> None:
        """Ask processes whose call names another rank (a send, a broadcast) which one it is."""
        wanted = [pid for pid in pids if pid in self._known]
        self._tell(f"the peers of {counted(len(wanted), 'rank')}")
        kept = "the ranks that torch's send, recv or broadcast named were"
        for outcome in self._ask_for_variables(wanted, kept):
            pid, began, data = outcome.command.pid, outcome.began, peers_only(outcome.output)
            look = self.snapshots[-1].number
            dump = Dump(pid=pid, look=look, taken_at=began, data=data, tool="py-spy-peers")
            self._peers.append(dump)

    def _take_counters(self, pids: Collection[int]) -> None:
        """Ask processes that stand at one line in which step they are, and what they call there."""
        members = {member.pid: member for member in self.job.members}
        wanted = [pid for pid in pids if pid in members]
        self._tell(f"the steps of {counted(len(wanted), 'rank')}")
        kept = "whole numbers with the name of a step or counter, arguments, and a checksum were"
        answers = self._ask_for_variables(wanted[:MOST], kept)
        printed = {outcome.command.pid: outcome.output for outcome in answers}
        calls = sites(printed)
        files = {file for site in calls for file, _ in ((site.file, ""), *site.callers)}
        trees = self._sources(dict.fromkeys(sorted(files), next(iter(printed), 0)))

        def of_loops(file: str, line: int) -> Collection[str]:
            return counts_of_loops(trees[file], line) if file in trees else ()

        for pid, data in printed.items():
            who = members[pid].who(self.hostname)
            self._facts += read_counters(who, data, of_loops)
            self._facts += read_arguments(who, data, calls, trees)

    def _sources(self, files: Mapping[str, int]) -> dict[str, ast.Module]:
        """Parse source files, each as the process given for it sees it."""
        trees: dict[str, ast.Module] = {}
        for file, pid in files.items():
            path = self.host.proc.path_for(pid, file)
            tree = parsed(self.host.files.read(path, most=MAX_BYTES).data)
            if tree is not None:
                trees[file] = tree
        return trees

    def bundle(self) -> Bundle:
        """Return everything taken so far as a bundle in memory."""
        snapshots = [*self.snapshots, *self._native]
        parts: list[Snapshot | Collected] = [*snapshots, *self._collected]
        # the first stacks may have shown that a process is none of the job's, or a rank
        members = {member.pid: member for member in self.job.members}
        taken = (*(dump for each in snapshots for dump in each.dumps), *self._peers)
        processes = [
            members[pid].describes(process, self.hostname)
            for each in self.snapshots
            for pid, process in each.processes.items()
            if pid in members
        ]
        facts = [
            *self._facts,
            *self._steps,
            *self._steps_before,
            *(fact for part in parts for fact in part.facts),
            *self._pauses(members),
            *self.host.files.hanging.values(),
        ]
        if self.host.proc.in_container():
            facts.append(PartOfHost(who=Who(host=self.hostname), source=CLAIMS))
        manifest = Manifest(
            version=__version__,
            created_at=self.created_at,
            created=time_text(self.created_at),
            host=self.hostname,
            target=self.target,
            looks=len(self.snapshots),
            interval=self.options.interval,
            touched=(*self._touched, *(text for part in parts for text in part.touched)),
        )
        dumps = [dump for dump in taken if dump.pid in members]
        files = [file for each in self._collected for file in each.files]
        return bundle_of(manifest, self.job, processes, dumps, facts, files)

    def _pauses(self, members: Mapping[int, JobProcess]) -> Iterator[Paused]:
        """Yield how long the stack dumps of each process took."""
        seconds: dict[int, list[float]] = {}
        for snapshot in (*self.snapshots, *self._native):
            for pid, took in snapshot.pauses:
                seconds.setdefault(pid, []).append(took)
        for pid in (pid for pid in seconds if pid in members):
            who, total = members[pid].who(self.hostname), round(sum(seconds[pid]), 3)
            yield Paused(dumps=len(seconds[pid]), seconds=total, who=who, source=CLAIMS)

    def _take_snapshot(self) -> None:
        self._tell(f"look {len(self.snapshots) + 1}: {self.job.in_words()}")
        snapshot = self._new_snapshot(len(self.snapshots), native=self.options.native)
        self.snapshots.append(snapshot)
        self.wake(over=self.over)
        snapshot.take(self.job.members, worth_reading(self.job.members))

    def _new_snapshot(self, number: int, *, native: bool) -> Snapshot:
        return Snapshot(
            self.host,
            self.hostname,
            number,
            self._known,
            limit=self.options.limit,
            native=native,
            at_rest=self.snapshots[-1].at_rest if self.snapshots and not native else None,
        )

    def _wait(self, spacing: float = 1.0) -> None:
        """Wait until the next snapshot is to begin."""
        self.snapshots[-1].settle()
        further = len(self.snapshots) - self.options.looks
        seconds = self.options.interval * spacing * spread(further)
        if spacing > 1.0:
            ranks = (m.pid for m in self.job.members if m.role is Role.RANK)
            self.host.proc.sleep_until_woken(list(ranks)[:MOST], seconds)
        else:
            time.sleep(seconds)

    def _settle(self) -> None:
        """Tell from the first stacks which processes are ranks, and number them."""
        dumps = {dump.pid: dump.data for dump in self.snapshots[0].dumps}
        self.job = settle(self.job, self.host, dumps)
        nameless = whom_to_ask(self.job)
        if nameless:
            self._tell("asking processes for the number of their rank")
            asked = [pid for pid in nameless if pid in dumps]
            outcomes = self._ask_for_variables(asked, "the number of the rank was")
            numbers = {o.command.pid: read_numbers(o.output) for o in outcomes}
            self.job = number(self.job, self.host, numbers)

    def _ask_for_spots(self) -> tuple[InitArguments, ...]:
        """Learn from ranks that are starting where they were told to meet."""
        ranks = {member.pid: member.who(self.hostname) for member in self.job.ranks}
        pids = starting({d.pid: d.data for d in self.snapshots[0].dumps if d.pid in ranks})
        if not pids:
            return ()
        self._tell("asking where the ranks are to meet")
        kept = "address, rank and world size of init_process_group were"
        answers = self._ask_for_variables(pids, kept)
        calls = (read_spot(ranks[answer.command.pid], answer.output) for answer in answers)
        spots = tuple(call for call in calls if call is not None)
        self._facts += spots
        return spots

    def _ask_for_variables(self, pids: Iterable[int], kept: str) -> list[Outcome]:
        """Have py-spy print all variables of processes; no more may be kept than is told."""
        answered = [o for o in self.snapshots[-1].dump_locals(pids) if o.code == 0]
        self._touched.append(
            f"py-spy dump --locals paused {counted(len(answered), 'process')}; "
            f"of the variables only {kept} kept"
        )
        return answered


def spread(further: int) -> float:
    """Return the part of the interval to wait before a further look; those asked for keep to it.

    Looks in step with the steps of a job would catch its ranks at one and the same place.
    """
    return 1.0 if further < 0 else 0.6 + 0.8 * (further * GOLDEN % 1.0)

"""Take the evidence of a live job: what /proc tells and the Python stacks, several times.

Read-only: nothing is run in the target, and it is paused only for the milliseconds that py-spy
needs. Its store is asked for the names of its keys (``store.py``); nothing else is sent to it.
What was done is recorded in the bundle.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from whyhang.analyzer.model import Claim, Excerpt, Gap, Process, Record, Role, replace
from whyhang.analyzer.model_meeting import StoreView
from whyhang.analyzer.redact import redact_bytes
from whyhang.collectors.files.bundle import Bundle
from whyhang.collectors.live import spots
from whyhang.collectors.live.bundling import Printed, Taken, bundle_of
from whyhang.collectors.live.job import alike, spawned
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Job
from whyhang.collectors.live.probes.file_store import FileReading
from whyhang.collectors.live.probes.gpus import EXTRA, GpuWatch
from whyhang.collectors.live.probes.kernel_log import KernelLog, kernel_log
from whyhang.collectors.live.probes.libraries import Fingerprints
from whyhang.collectors.live.probes.pressure import Pressure
from whyhang.collectors.live.probes.ras import RasQuestion
from whyhang.collectors.live.probes.recorders import (
    Records,
    asked,
    from_debug_server,
    newest,
    rank_processes,
    written,
)
from whyhang.collectors.live.probes.store import Reading, client
from whyhang.collectors.live.probes.store_places import meeting_places
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.process import who
from whyhang.collectors.live.snapshot import Dump, Look, worth_reading
from whyhang.collectors.live.versions import versions

if TYPE_CHECKING:
    from whyhang.collectors.live.variables import Variables


GOLDEN = 0.618034  # its multiples keep away from each other


class Options(Record):
    """How to look: how often, how many seconds apart, how many seconds each grab may take.

    ``native``: take native frames as well, in every look. ``ask``: have the ranks write their
    recorders' dumps; ``debug_server``: "host:port" of torch's, to be asked for them. ``store``:
    read the keys of the job's store. ``probe``: try from here where the ranks are to meet.
    """

    looks: int = 2
    interval: float = 1.0
    limit: float = 15.0
    native: bool = False
    ask: bool = False
    debug_server: str | None = None
    store: bool = True
    probe: bool = False


def capture(
    pid: int,
    options: Options,
    tell: Callable[[str], None],
    *,
    meanwhile: Iterator[object] | None = None,
) -> Capture:
    """Find the job of ``pid`` and look at it. Raises ``TargetError`` if there is none.

    ``tell`` is called with what is being done, in a few words, for a person who waits. While
    py-spy runs, ``meanwhile`` is asked for its items: pieces of work that take a few milliseconds.
    """
    taking = Capture(pid, options, tell, Proc())
    taking.meanwhile = meanwhile
    taking.look_all()
    return taking


class Capture:
    """A job under observation, and what was taken of it so far."""

    def __init__(self, pid: int, options: Options, tell: Callable[[str], None], proc: Proc) -> None:
        tell(f"finding the job of process {pid}")
        self.target = pid
        self.options = options
        self.created_at = time.time()
        self.hostname = os.uname().nodename
        self.host = Host(proc)
        self.job: Job = find_job(self.host, pid)
        self.meanwhile: Iterator[object] | None = None
        self._tell = tell
        self._known: dict[int, Process] = {}
        self._looks: list[Look] = []
        self._native: list[Look] = []
        self._excerpts: list[Excerpt] = []
        self._touched: list[str] = []
        self._records: list[Records] = []
        self._spots: list[spots.Spot] = []
        self._reading: Reading | None = None
        self._stores: list[StoreView] = []
        self._files: FileReading | None = None
        self._gaps: list[Gap] = []
        self._printed: list[Printed] = []
        self._fingerprints: list[Claim] = []
        self._aside = False  # whether what needs no look has been read
        self._ras: RasQuestion | None = None
        self._client: subprocess.Popen[bytes] | None = None  # waits to be told which store to ask
        self._kernel: KernelLog | None = None
        self._peers: list[Dump] = []
        self._claims: list[Claim] = []
        self._gpus = GpuWatch(self.hostname)

    def look_all(self) -> None:
        """Take all looks; after the first, ranks that only their stacks tell are numbered."""
        pressure = Pressure(self.host.proc, self.job.members)
        for number in range(self.options.looks):
            self._look(last=number + 1 == self.options.looks)
        self._excerpts = self._read_excerpts()
        self._records = self._read_recorders()
        self._read_aside()
        until = time.monotonic() + EXTRA  # what is asked beside the looks shares it
        self._finish_stores()
        self._finish_ras(max(0.05, until - time.monotonic()))
        self._finish_gpus(max(0.0, until - time.monotonic()))
        self._fingerprints = [
            *self._fingerprints,
            *pressure.claims(self.hostname),
        ]

    def look_more(self, count: int) -> None:
        """Take further looks, where the first ones left open whether the job moves."""
        if self._looks:
            self._looks[-1].settle()
        for number in range(count):
            self._look(last=number + 1 == count)

    def _look(self, *, last: bool) -> None:
        number = len(self._looks)
        if number:
            began = time.monotonic()
            self._read_aside()
            interval = self.options.interval * spread(number - self.options.looks)
            self._gpus.pause(max(0.0, interval - (time.monotonic() - began)))
        self._tell(f"look {number + 1}: {_count(self.job)}")
        look = self._new_look(number, native=self.options.native)
        self._looks.append(look)
        read = worth_reading(self.job.members)
        if number < self.options.looks:
            self._gpus.look(number)
        beside = self._beside(look, last=last)
        look.take(self.job.members, self._known, read, beside, self.meanwhile)
        if number == 0 and self._is_unsettled():
            self._settle(look)
        if number == 0:  # beside the pause between the looks
            self._ask_for_spots(look)
            self._files = FileReading(self.host, self.job, self._spots, self.hostname)
            found = meeting_places(self.host, self.job, look.processes, self._spots)
            members = [member.pid for member in self.job.members]
            if self._asks_store():
                self._reading = Reading(
                    self.host,
                    found,
                    members=members,
                    store=self.options.store,
                    probe=self.options.probe,
                    ready=self._client,
                )
        self._gpus.step()
        if not last:
            look.settle()

    def _is_unsettled(self) -> bool:
        """Tell whether only the first stacks say which processes are ranks."""
        return self.job.family is not None or self.job.alike is not None

    def _asks_store(self) -> bool:
        return self.options.store or self.options.probe

    def _beside(self, look: Look, *, last: bool) -> Iterator[None]:
        """Begin, piece by piece, what runs beside the first look; read what no pause follows for.

        Which children of a program are ranks is known only after the first look at it.
        """
        if look.number == 0:
            options = self.options
            self._ras = RasQuestion(
                self.host, self.job, options.looks, options.interval, look.sockets
            )
            yield
            if self._asks_store():
                with contextlib.suppress(OSError):  # it is tried again when there is a store
                    self._client = client()
                yield
        if last and not (look.number == 0 and self._is_unsettled()):
            yield from self._asides()

    def native_stacks(self, pids: Iterable[int]) -> None:
        """Take native stacks of some processes, about a second each, as part of the last look."""
        wanted = set(pids)
        members = [m for m in self.job.members if m.pid in wanted and m.python]
        self._tell(f"native stacks of {len(members)} processes")
        look = self._new_look(max(0, len(self._looks) - 1), native=True)
        self._native.append(look)
        look.take(members, self._known, {member.pid for member in members})

    def peers(self, pids: Iterable[int]) -> None:
        """Ask processes whose call names another rank (a send, a broadcast) which one it is."""
        if not self._looks:
            return
        wanted = [pid for pid in pids if pid in self._known]
        self._tell(f"the peers of {len(wanted)} ranks")
        variables = self._variables(self._looks[-1])
        self._peers += variables.peers(wanted)
        self._touched += variables.touched

    def counters(self, pids: Iterable[int]) -> None:
        """Ask processes that stand at one line in which step of their loops they are."""
        from whyhang.collectors.live.counters import claim_of  # noqa: PLC0415 - seldom needed

        if not self._looks:
            return
        wanted = [pid for pid in pids if pid in self._known]
        self._tell(f"the steps of {len(wanted)} ranks")
        variables = self._variables(self._looks[-1])
        members = {member.pid: member for member in self.job.members}
        self._claims += [
            claim_of(counter, who(members[counter.pid], self.hostname))
            for counter in variables.counters(wanted)
            if counter.pid in members
        ]
        self._touched += variables.touched

    def bundle(self) -> Bundle:
        """Give everything taken so far as a bundle in memory."""
        every = [*self._looks, *self._native]
        dumps = (*(dump for look in every for dump in look.dumps), *self._peers)
        processes = tuple(self._final(p) for look in self._looks for p in look.processes.values())
        return bundle_of(
            Taken(
                job=self.job,
                target=self.target,
                hostname=self.hostname,
                created_at=self.created_at,
                looks=len(self._looks),
                interval=self.options.interval,
                processes=processes,
                dumps=dumps,
                versions=versions(self.host.proc, dumps),
                excerpts=tuple(self._excerpts),
                gaps=(
                    *self.job.left_out,
                    *(gap for look in every for gap in look.gaps),
                    *(gap for records in self._records for gap in records.gaps),
                    *self._gaps,
                ),
                touched=(
                    *self._touched,
                    *(text for look in every for text in look.touched),
                    *(text for records in self._records for text in records.touched),
                ),
                records=newest(self._records),
                stores=tuple(self._stores),
                files=self._files.finish() if self._files is not None else (),
                printed=tuple(self._printed),
                claims=(*self._claims, *(claim for look in every for claim in look.claims)),
                fingerprints=tuple(self._fingerprints),
                spots=tuple(self._spots),
            )
        )

    def _new_look(self, number: int, *, native: bool) -> Look:
        return Look(self.host, self.hostname, number, limit=self.options.limit, native=native)

    def _final(self, process: Process) -> Process:
        """Give a process the role and rank that the stacks have told since."""
        member = next(m for m in self.job.members if m.pid == process.who.pid)
        return replace(
            process, who=who(member, self.hostname), role=member.role, owner_pid=member.owner
        )

    def _variables(self, look: Look) -> Variables:
        from whyhang.collectors.live.variables import Variables  # noqa: PLC0415 - seldom needed

        return Variables(look, self.options.limit)

    def _read_excerpts(self) -> list[Excerpt]:
        from whyhang.collectors.live.probes.source_lines import excerpts, places  # noqa: PLC0415 - not before

        found: dict[tuple[str, int], int] = {}
        for dump in (dump for look in self._looks for dump in look.dumps):
            for place in places(dump.data):
                found.setdefault(place, dump.pid)
        cwds = {pid: process.cwd for pid, process in self._known.items()}
        return excerpts(self.host.proc, found, cwds)

    def _read_recorders(self) -> list[Records]:
        """Take the recorders' dumps that the ranks have written, and new ones if told to."""
        ranks = rank_processes(self.host, self.job)
        found = [written(ranks)]
        if self.options.ask:
            self._tell("asking the ranks for their recorders")
            found.append(asked(ranks))
        if self.options.debug_server:
            self._tell(f"asking {self.options.debug_server} for the recorders")
            found.append(from_debug_server(self.options.debug_server, self.options.limit))
        return found

    def _finish_ras(self, extra: float) -> None:
        """Keep what NCCL's RAS answered beside the looks."""
        question = self._ras
        if question is None:
            return
        for answer in question.finish(extra):
            form = "json" if answer.form == "json" else "txt"
            self._printed.append(
                Printed(
                    name=f"ras.look{answer.look}.{form}",
                    kind="ras",
                    data=answer.data,
                    look=answer.look,
                    taken_at=answer.taken_at,
                )
            )
        self._gaps += question.gaps
        self._touched += question.touched

    def _finish_gpus(self, extra: float) -> None:
        """Keep what was told of the GPUs, and what did not come back."""
        self._gpus.finish(self._known.values(), extra)
        self._printed += [
            Printed(
                name=output.name,
                kind="gpu-failed" if output.failed else "gpu",
                data=redact_bytes(output.data),  # it names other programs, with their arguments
                look=output.look,
                taken_at=output.taken_at,
            )
            for output in self._gpus.outputs
        ]
        self._gaps += self._gpus.gaps
        self._touched += self._gpus.touched
        self._claims += self._gpus.claims

    def _read_aside(self) -> None:
        """Read, once, what is the same at every look: in the pause between two of them."""
        for _ in self._asides():
            pass
        self._keep_kernel_log()

    def _asides(self) -> Iterator[None]:
        """Do it piece by piece. The journal, which may take long, is left for afterwards."""
        if self._aside:
            return
        self._aside = True
        self._kernel = kernel_log(self.host, self.job, self.hostname, journal=False)
        yield
        ranks = [member for member in self.job.members if member.role is Role.RANK]
        for claim in Fingerprints(self.host, self.hostname).claims(ranks):
            self._fingerprints.append(claim)
            yield

    def _keep_kernel_log(self) -> None:
        """Keep what the kernel says of GPUs, links, memory and the job's processes."""
        log, self._kernel = self._kernel, None
        if log is None:
            return
        if log.gaps:
            log = kernel_log(self.host, self.job, self.hostname)
        if log.data:
            self._printed.append(Printed(name="kernel.log", kind="kernel-log", data=log.data))
        self._gaps += log.gaps

    def _ask_for_spots(self, look: Look) -> None:
        """Learn from ranks that are starting where they were told to meet."""
        ranks = {m.pid for m in self.job.members if m.role is Role.RANK}
        pids = spots.starting({d.pid: d.data for d in look.dumps if d.pid in ranks})
        if not pids:
            return
        self._tell("asking where the ranks are to meet")
        variables = self._variables(look)
        self._spots = variables.spots(pids)
        self._touched += variables.touched

    def _finish_stores(self) -> None:
        """Take what the stores have answered by now, or until their time is up."""
        if self._reading is not None:
            self._tell("waiting for the store")
            for _ in self.meanwhile or ():  # what is left of it, as long as there is time
                if not self._reading.pending():
                    break
            self._stores, gaps, touched = self._reading.finish(
                self.hostname, self._looks[-1].sockets
            )
            self._gaps += gaps
            self._touched += touched

    def _settle(self, look: Look) -> None:
        """Tell from the first stacks which processes are ranks, and number them."""
        dumps = {dump.pid: dump.data for dump in look.dumps}
        if self.job.alike is not None:
            self.job = alike.settle(self.job, self.host, dumps)
        if self.job.family is not None:
            self.job = spawned.settle(self.job, self.host, dumps)
        ranks = [m.pid for m in self.job.members if m.role is Role.RANK]
        if self.job.alike is not None:
            self._tell("asking the programs for the number of their rank")
            variables = self._variables(look)
            said = variables.numbers([pid for pid in ranks if pid in dumps])
            self.job = alike.number(self.job, self.host, said)
            self._touched += variables.touched
            return
        if self.job.family is None or self.job.family in ranks:
            return
        self._tell("asking spawned processes for the number of their rank")
        asked = [pid for pid in [*ranks, self.job.family] if pid in dumps]
        variables = self._variables(look)
        self.job = spawned.number(self.job, self.host, variables.numbers(asked))
        self._touched += variables.touched


def _count(job: Job) -> str:
    """Say what there is: "8 ranks, 16 DataLoader workers, torchrun"."""
    ranks = sum(member.role is Role.RANK for member in job.members)
    workers = sum(member.role is Role.DATALOADER_WORKER for member in job.members)
    parts = [f"{ranks} rank{'' if ranks == 1 else 's'}"]
    if workers:
        parts.append(f"{workers} DataLoader worker{'' if workers == 1 else 's'}")
    return ", ".join([*parts, job.launcher] if job.launcher else parts)


def spread(further: int) -> float:
    """Give the part of the interval to wait before a further look; those asked for keep to it.

    Looks in step with the steps of a job would catch its ranks at one and the same place.
    """
    return 1.0 if further < 0 else 0.6 + 0.8 * (further * GOLDEN % 1.0)

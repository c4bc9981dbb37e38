"""Drives the far sides of all hosts: beside each other, within a deadline, whatever they do.

What does not answer, refuses or has no such process is a gap with its reason and remedy; what
did answer counts. No more than ``FAN_OUT`` hosts are being connected to at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from whyhang.analyzer.facts import Gap, counted
from whyhang.collectors.files.bundle import Clock
from whyhang.collectors.hosts import payload, ssh, troubles, wire
from whyhang.collectors.hosts.channel import Channels, Closed, answer_of
from whyhang.collectors.hosts.merge import Part, Parts
from whyhang.collectors.hosts.reach import Host, Reach
from whyhang.collectors.hosts.wire import Answer
from whyhang.collectors.live.probes.probe import Options

if TYPE_CHECKING:
    from typing_extensions import Self

FAN_OUT = 64
BEAT = 0.02
"""Seconds between two looks at who has to be started, given up or waited for."""

SLOW = 2.0
"""Seconds after which a host that gave no sign of life no longer counts for the fan-out."""

MOST_NEW = 4096
"""Hosts that others may name: more than any job has."""

FED_AT_ONCE = 16
"""Hosts that are sent the self-contained file at a time."""

ENOUGH = 2.0
"""Seconds that have to be left for another question."""

MOST_NAMED = 4
"""Hosts that the line of progress names."""

GOODBYE = 2.0
"""Seconds that far sides get to clear up before their channels are cut."""


class Far:
    """What is known of one far side. ``name`` is what the planner calls it."""

    def __init__(self, host: Host, channel: str) -> None:
        self.host = host
        self.channel = channel
        self.own_name = ""  # what it calls itself on the wire
        self.node = ""
        self.alive = False
        self.ready = False
        self.busy = False
        self.jobs: dict[str, int] = {}  # ranks by the name of the job
        self.gap: Gap | None = None
        self.offset: float | None = None
        self.round_trip: float | None = None
        self.asked = False
        self.logs: dict[str, bool] = {}
        self.own: list[str] = []  # its addresses
        self.others: list[str] = []  # hosts that it knows of

    @property
    def name(self) -> str:
        """The name for people."""
        return self.host.name


def left_to_others(fars: Sequence[Far]) -> dict[tuple[str, str], list[str]]:
    """Return which logs each host leaves to another: of a shared one, one host is the reader.

    That is one of which a rank alone writes it, where there is one.
    """
    readers: dict[str, Far] = {}
    for alone in (True, False):
        for far in fars:
            for log, is_own in far.logs.items():
                if is_own or not alone:
                    readers.setdefault(log, far)
    return {
        (far.channel, far.own_name): [log for log in far.logs if readers[log] is not far]
        for far in fars
    }


def how_far(doing: str, late: Sequence[Far], count: int) -> str:
    """Say for people how many of ``count`` hosts have answered, and which have not."""
    names = [far.name for far in late]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    waits = f"; waiting for {', '.join(names[:MOST_NAMED])}{more}" if names else ""
    return f"{doing}: {count - len(names)} of {counted(count, 'host')} answered{waits}"


class Conversation:
    """The far sides of a job. Use as a context manager: nothing stays behind when it ends."""

    def __init__(
        self,
        reach: Reach,
        options: Options,
        limit: float,
        tell: Callable[[str], None],
        *,
        patterns: Iterable[str] = (),
        whole: bool = False,
    ) -> None:
        self.reach = reach
        self.options = options
        self.gaps: list[Gap] = list(reach.gaps)
        self.parts = Parts()
        self.fars: list[Far] = []
        self._patterns = sorted(patterns)
        self._whole = whole
        self.interrupted = False
        self._limit = limit
        self._until = time.monotonic() + limit
        self._tell = tell
        self._channels = Channels()
        self._by_channel: dict[str, list[Far]] = {}
        self._waiting: list[Far] = []
        self._started: dict[str, float] = {}
        self._unfed: list[tuple[Far, Answer]] = []
        self._fed: list[Far] = []
        self._programs: dict[payload.Platform, bytes | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._end()
        finally:
            self._channels.stop()

    @property
    def here(self) -> list[Far]:
        """The far sides that can be talked to."""
        return [far for far in self.fars if far.ready and far.gap is None]

    def left(self) -> float:
        """Return the seconds until the deadline."""
        return self._until - time.monotonic()

    def open(self) -> None:
        """Reach all hosts; then each has a gap, or waits for orders."""
        self._open(self.reach.hosts)

    def find(self) -> None:
        """Have each far side find the processes of the job; hosts without one become gaps.

        Where a host knows of others that the job runs on, these are reached, too.
        """
        self._find()
        while self.reach.grows and (names := self._new_names()):
            self._open([ssh.host(name, connect=ssh.CONNECT) for name in names])
            self._find()
        found = len(self.fars)
        if self.reach.count is not None and found < self.reach.count:
            self.gaps.append(troubles.not_all_known(found, self.reach.count))

    def _open(self, hosts: Iterable[Host]) -> None:
        new: list[Far] = []
        for host in hosts:
            far = Far(host, "all" if self.reach.together else f"host {len(self._by_channel)}")
            new.append(far)
            self.fars.append(far)
            self._by_channel.setdefault(far.channel, []).append(far)
        self._waiting = list({far.channel: far for far in reversed(new)}.values())[::-1]
        half = time.monotonic() + self.left() / 2
        while late := self._connecting():
            self._tell(how_far("reaching", late, len(self.fars)))
            self._start_more()
            self._feed()
            self._listen_for(BEAT)
            now = time.monotonic()
            for far in self._silent(now):
                self._give_up(far, troubles.silent(far.name, self.reach.kind, self.reach.patience))
            if now > half:
                for far in self._connecting():
                    why = "it was not ready" if far.alive else "it did not answer"
                    self._give_up(far, troubles.late(far.name, why, self._limit / 2))
        self._measure_clocks([far for far in new if far.ready])

    def _find(self) -> None:
        new = [far for far in self.here if not far.asked]
        nodes = Counter(far.node for far in self.here)
        for some in self._alike(new, lambda far: nodes[far.node] > 1 or far.host.pids):
            self._order(
                some,
                "find",
                selector=msgspec.to_builtins(self.reach.selector),
                options=msgspec.to_builtins(self.options),
                called={far.own_name: far.name for far in some if nodes[far.node] > 1},
                pids={far.own_name: far.host.pids for far in some if far.host.pids},
                grows=self.reach.grows,
                patterns=self._patterns,
                whole=self._whole,
                deadline=self.left() + 5,
            )
        self._until_answered("finding the job")
        for far in new:
            far.asked = True
            if far.gap is None and not far.jobs:
                far.gap = troubles.no_process(far.name)

    def _new_names(self) -> list[str]:
        """Return the hosts that others have named and that nobody has tried yet."""
        tried = {name for far in self.fars for name in (far.name, far.node, *far.own)}
        names = dict.fromkeys(name for far in self.fars for name in far.others)
        return [name for name in names if name not in tried][:MOST_NEW]

    def look(self, job: str | None = None) -> None:
        """Have all take their snapshots at the same moment; ``job`` where there are several."""
        others = left_to_others(self.here)
        for some in self._alike(self.here, lambda far: others[far.channel, far.own_name]):
            theirs = {far.own_name: others[far.channel, far.own_name] for far in some}
            self._order(some, "look", job=job, others_logs=theirs)
        self._until_answered("looking")

    def ask(
        self, what: str, processes: Iterable[tuple[str | None, int]] = (), **how: float
    ) -> None:
        """Have far sides take more of their processes, each of its own, while there is time.

        Ctrl-C ends the asking: what has come is diagnosed.
        """
        if self.interrupted or self.left() < ENOUGH:
            return
        pids: dict[str, list[int]] = {}
        own_names = {each: far for far in self.here for each in (far.name, far.node)}
        for host, pid in processes:
            far = own_names.get(host or "") or (self.here[0] if len(self.here) == 1 else None)
            if far is not None:
                pids.setdefault(far.own_name, []).append(pid)
        asked = [far for far in self.here if how or far.own_name in pids]
        self._order(asked, "ask", what=what, pids=pids, **how)
        try:
            self._until_answered(f"asking for {what.replace('_', ' ')}")
        except KeyboardInterrupt:
            self.interrupted = True

    def clocks(self) -> list[Clock]:
        """Return how far ahead the clock of each host is."""
        return [
            Clock(host=far.name, ahead=round(far.offset, 3), within=round(far.round_trip / 2, 3))
            for far in self.fars
            if far.offset is not None and far.round_trip is not None
        ]

    def _connecting(self) -> list[Far]:
        return [far for far in self.fars if far.gap is None and not far.ready]

    def _silent(self, now: float) -> list[Far]:
        """List the hosts that gave no sign of life for too long."""
        return [
            far
            for far in self._connecting()
            if not far.alive and now - self._started.get(far.channel, now) > self.reach.patience
        ]

    def _start_more(self) -> None:
        now = time.monotonic()
        under_way = sum(
            not fars[0].alive and fars[0].gap is None and now - self._started[channel] < SLOW
            for channel, fars in self._by_channel.items()
            if channel in self._started
        )
        new, self._waiting = (
            self._waiting[: FAN_OUT - under_way],
            self._waiting[max(0, FAN_OUT - under_way) :],
        )
        if not new:
            return
        words = payload.words()
        commands = {
            far.channel: (*self.reach.together, *words)
            if self.reach.together
            else far.host.command(words)
            for far in new
        }
        self._channels.start(commands)
        self._channels.send(list(commands), payload.first_words())
        self._started |= dict.fromkeys(commands, now)

    def _listen(self, seconds: float) -> None:
        """Take what comes, for at most so long where nothing does."""
        try:
            event = self._channels.events.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return
        while True:
            if isinstance(event, Closed):
                self._closed(event)
            else:
                self._came(event.channel, answer_of(event))
            try:
                event = self._channels.events.get_nowait()
            except queue.Empty:
                return

    def _listen_for(self, seconds: float) -> None:
        """Take what comes within that time, however much it is."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._listen(left)

    def _alike(self, fars: Sequence[Far], has_own: Callable[[Far], object]) -> list[list[Far]]:
        """Group far sides that get one and the same order: those with nothing of their own."""
        if self.reach.together:
            return [list(fars)]
        own = [[far] for far in fars if has_own(far)]
        return [[far for far in fars if not has_own(far)], *own]

    def _came(self, channel: str, answer: Answer) -> None:
        far = self._far(channel, answer.name)
        if far is None or far.gap is not None:
            return
        take = {
            "alive": self._alive,
            "no-python": self._no_python,
            "hello": self._hello,
            "ready": self._ready,
            "clock": self._clock,
            "found": self._found,
            "part": self._part,
            "done": self._done,
            "trouble": self._trouble,
        }.get(answer.say)
        if take is not None:
            take(far, answer)

    def _alive(self, far: Far, _: Answer) -> None:
        far.alive = True

    def _done(self, far: Far, _: Answer) -> None:
        far.busy = False

    def _no_python(self, far: Far, _: Answer) -> None:
        self._give_up(far, troubles.no_python(far.name, self.reach.kind))

    def _clock(self, far: Far, answer: Answer) -> None:
        now, sent = time.time(), answer.number("sent")
        far.round_trip = now - sent
        far.offset = answer.number("now") - (now + sent) / 2
        far.busy = False

    def _found(self, far: Far, answer: Answer) -> None:
        far.busy = False
        far.own = [text for text in answer.items("own", 100) if isinstance(text, str)]
        listed = answer.fields.get("logs")
        if isinstance(listed, dict):
            far.logs = {str(log)[:500]: own is True for log, own in listed.items()}
        for name in answer.items("others", MOST_NEW):
            with contextlib.suppress(ValueError):
                far.others.append(ssh.host(str(name)).name)
        for job in answer.items("jobs"):
            if isinstance(job, dict) and isinstance(job.get("ranks"), int):
                far.jobs[str(job.get("name"))[:500]] = job["ranks"]

    def _part(self, far: Far, answer: Answer) -> None:
        trouble = self.parts.add(Part(far.name, answer.number("number")), answer.blob)
        if trouble:
            self._give_up(far, troubles.unreadable(far.name, trouble))

    def _trouble(self, far: Far, answer: Answer) -> None:
        """Note what went wrong there; what the host sent before counts."""
        gap = troubles.said(far.name, answer.text("why"), answer.text("remedy"))
        if far.name in self.parts.hosts:
            far.busy = False
            self.gaps.append(gap)
        else:
            self._give_up(far, gap)

    def _ready(self, far: Far, _: Answer) -> None:
        far.ready = True

    def _hello(self, far: Far, answer: Answer) -> None:
        far.node = answer.text("node")[:255]
        far.alive = True
        if not answer.fields.get("has"):
            self._unfed.append((far, answer))

    def _feed(self) -> None:
        """Send whyhang to some of those that have none: a few at a time, as it is megabytes."""
        under_way = [far for far in self._fed if not far.ready and far.gap is None]
        while self._unfed and len(under_way) < FED_AT_ONCE:
            far, hello = self._unfed.pop(0)
            python, program = self._fitting(hello)
            if program is None:
                self._give_up(far, troubles.no_whyhang(far.name, hello.text("python")))
                continue
            fields = {"sha256": hashlib.sha256(program).hexdigest(), "python": python}
            order = wire.question("payload", [far.own_name], program, **fields)
            self._channels.send([far.channel], order)
            self._fed.append(far)
            under_way.append(far)

    def _fitting(self, hello: Answer) -> tuple[str, bytes | None]:
        """Choose a Python of a host and what to send for it: as here, else whatever pip can get."""
        listed = hello.fields.get("pythons")
        pythons = {str(k): str(v) for k, v in listed.items()} if isinstance(listed, dict) else {}
        own, machine, system = payload.here(), hello.text("machine"), hello.text("system")
        if hello.text("libc") != "glibc":
            return "", None
        for version in (own.python, hello.text("python")):
            wanted = payload.Platform(python=version, machine=machine, system=system)
            if version in pythons and wanted not in self._programs:
                began = time.monotonic()
                self._tell(f"making what runs in Python {version}")
                self._programs[wanted] = payload.self_contained(wanted)
                self._until += time.monotonic() - began
            if version in pythons and (program := self._programs[wanted]) is not None:
                return pythons[version], program
        return "", None

    def _far(self, channel: str, own_name: str) -> Far | None:
        """Find who speaks: alone on its channel, or by the name that it gives itself."""
        fars = self._by_channel.get(channel, [])
        for far in fars:
            if far.own_name == own_name or len(fars) == 1:
                far.own_name = own_name
                return far
        short = own_name.partition(".")[0]
        for far in fars:
            if not far.own_name and far.name.partition(".")[0] == short:
                far.own_name = own_name
                return far
        return None

    def _closed(self, event: Closed) -> None:
        for far in self._by_channel.get(event.channel, []):
            far.busy = False
            if far.gap is None:
                far.gap = troubles.ended(
                    far.name, self.reach.kind, event.code, event.errors, alive=far.alive
                )

    def _give_up(self, far: Far, gap: Gap) -> None:
        far.gap, far.busy = gap, False
        if len(self._by_channel[far.channel]) == 1:
            self._channels.kill([far.channel])

    def _order(self, fars: Sequence[Far], do: str, **fields: object) -> None:
        """Send one order: to each channel once, for the far sides that are meant."""
        for far in fars:
            far.busy = True
        names = [far.own_name for far in fars]
        everybody = len(fars) == len(self.fars) or not self.reach.together
        channels = list(dict.fromkeys(far.channel for far in fars))
        if channels:
            data = wire.question(do, None if everybody else names, b"", **fields)
            self._channels.send(channels, data)

    def _until_answered(self, doing: str) -> None:
        """Wait until all have answered or the deadline has come."""
        while busy := [far for far in self.fars if far.busy]:
            self._tell(how_far(doing, busy, len(self.here)))
            if self.left() <= 0:
                for far in busy:
                    far.busy = False
                    if far.name in self.parts.hosts:
                        self.gaps.append(troubles.unfinished(far.name, self._limit))
                    else:
                        late = troubles.late(far.name, "it did not answer", self._limit)
                        self._give_up(far, late)
                return
            self._listen_for(BEAT)

    def _measure_clocks(self, fars: Sequence[Far]) -> None:
        self._order(fars, "clock", sent=time.time())
        self._until_answered("comparing clocks")

    def _end(self) -> None:
        """Let the far sides clear up and go; cut off those that do not."""
        self._channels.close(list(self._started))
        until = time.monotonic() + GOODBYE
        open_ = {far.channel for far in self.fars if far.gap is None and far.alive}
        while open_ and time.monotonic() < until:
            try:
                event = self._channels.events.get(timeout=0.1)
            except queue.Empty:
                continue
            if isinstance(event, Closed):
                open_.discard(event.channel)

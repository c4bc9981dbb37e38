"""The connections to all hosts: started, fed, ordered and listened to beside each other.

All of it within a deadline, whatever the hosts do: what does not answer, refuses or ends is a gap
with its reason and remedy. No more than ``FAN_OUT`` hosts are being connected to at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from whyhang.analyzer.facts import Gap
from whyhang.collectors.hosts import payload, remote_host, wire
from whyhang.collectors.hosts.channel import Channels, Closed
from whyhang.collectors.hosts.reach import Reach, ReachedHost
from whyhang.collectors.hosts.remote_host import RemoteHost, host_gap, how_far, plain
from whyhang.collectors.hosts.wire import Answer

FAN_OUT = 64
BEAT = 0.02
"""Seconds between two looks at who has to be started, given up or waited for."""

SLOW = 2.0
"""Seconds after which a host that gave no sign of life no longer counts for the fan-out."""

AT_ONCE = 16
"""Hosts that are sent whyhang at a time: it is megabytes."""

GOODBYE = 2.0
"""Seconds that far sides get to clear up before their channels are cut."""


class Connections(AbstractContextManager["Connections"]):
    """The hosts of a job. Use as a context manager: nothing stays behind when it ends.

    ``limit`` is in seconds, for everything; ``handlers`` take the answers to orders, by their
    kind, beside those that concern the connection itself.
    """

    def __init__(self, reach: Reach, limit: float, tell: Callable[[str], None]) -> None:
        self.reach = reach
        self.gaps: list[Gap] = list(reach.gaps)
        self.hosts: list[RemoteHost] = []
        self.handlers: dict[str, Callable[[RemoteHost, Answer], None]] = {}
        self._limit = limit
        self._until = time.monotonic() + limit
        self._tell = tell
        self._channels = Channels()
        self._by_channel: dict[str, list[RemoteHost]] = {}
        self._started: dict[str, float] = {}

    def __exit__(self, *_: object) -> None:
        """Let the far sides clear up and go; cut off those that do not."""
        try:
            self._channels.close(list(self._started))
            until = time.monotonic() + GOODBYE
            open_ = {host.channel for host in self.hosts if host.gap is None and host.alive}
            while open_ and time.monotonic() < until:
                with contextlib.suppress(queue.Empty):
                    event = self._channels.events.get(timeout=0.1)
                    if isinstance(event, Closed):
                        open_.discard(event.channel)
        finally:
            self._channels.stop()

    @property
    def ready(self) -> list[RemoteHost]:
        """The hosts that can be asked."""
        return [host for host in self.hosts if host.ready and host.gap is None]

    def left(self) -> float:
        """Return the seconds until the deadline; making what is sent to hosts does not count."""
        return self._until - time.monotonic()

    def open(self, hosts: Iterable[ReachedHost]) -> None:
        """Reach these hosts; then each has a gap, or waits for orders."""
        new: list[RemoteHost] = []
        for planned in hosts:
            name = "all" if self.reach.together else f"host {len(self._by_channel)}"
            new.append(RemoteHost(planned, name))
            self._by_channel.setdefault(name, []).append(new[-1])
        self.hosts += new
        half = time.monotonic() + self.left() / 2
        while late := self._connecting():
            self._tell(how_far("reaching", late, self.hosts))
            self._start_more()
            self._feed()
            self._listen_for(BEAT)
            self._give_up_late(time.monotonic(), half)
        ready = [host for host in new if host.ready]
        self.order(ready, "clock", sent=time.time())
        self.wait("comparing clocks")

    def order(self, hosts: Sequence[RemoteHost], do: str, **fields: object) -> None:
        """Send one order: to each channel once, for the hosts that are meant."""
        for host in hosts:
            host.busy = True
        names = [host.own_name for host in hosts]
        everybody = len(hosts) == len(self.hosts) or not self.reach.together
        channels = list(dict.fromkeys(host.channel for host in hosts))
        if channels:
            data = wire.question(do, None if everybody else names, b"", **fields)
            self._channels.send(channels, data)

    def wait(self, doing: str) -> None:
        """Wait until all have answered or the deadline has come; ``doing`` is for people."""
        while busy := [host for host in self.hosts if host.busy]:
            self._tell(how_far(doing, busy, self.hosts))
            if self.left() <= 0:
                for host in busy:
                    further = host_gap(
                        host.name,
                        f"it was not done within the {self._limit:g} s for all hosts",
                        "Give it more with --timeout",
                        what="a further look at host",
                        cost="what its ranks do is known from what it sent before",
                    )
                    late = remote_host.late(host.name, "it did not answer", self._limit)
                    self._fails(host, late, further)
                return
            self._listen_for(BEAT)

    def give_up(self, host: RemoteHost, gap: Gap) -> None:
        """Leave a host out from now on, for this reason."""
        host.gap, host.busy = gap, False
        if len(self._by_channel[host.channel]) == 1:
            self._channels.kill([host.channel])

    def give_up_unready(self, why: str) -> None:
        """Leave out all hosts that are not ready by now."""
        for host in self._connecting():
            self.give_up(host, host_gap(host.name, why, "Look again, or leave it out of --hosts"))

    def _connecting(self) -> list[RemoteHost]:
        return [host for host in self.hosts if host.gap is None and not host.ready]

    def _give_up_late(self, now: float, half: float) -> None:
        """Give up hosts without a sign of life for too long; after ``half``, all not ready."""
        patience, kind = self.reach.patience, self.reach.kind
        for host in self._connecting():
            started = self._started.get(host.channel, now)
            if not host.alive and now - started > patience:
                why = f"it gave no sign of life within {patience:g} s ({kind})"
                remedy = "Look whether it is up (ping, the scheduler's node state, its console)"
                self.give_up(host, host_gap(host.name, why, remedy))
            elif now > half:
                why = "it was not ready" if host.alive else "it did not answer"
                self.give_up(host, remote_host.late(host.name, why, self._limit / 2))

    def _start_more(self) -> None:
        now = time.monotonic()
        under_way = sum(
            not hosts[0].alive and hosts[0].gap is None and now - self._started[channel] < SLOW
            for channel, hosts in self._by_channel.items()
            if channel in self._started
        )
        waiting = [channel for channel in self._by_channel if channel not in self._started]
        new = waiting[: max(0, FAN_OUT - under_way)]
        if not new:
            return
        words, together = payload.words(), self.reach.together
        commands = {
            channel: (*together, *words)
            if together
            else self._by_channel[channel][0].host.command(words)
            for channel in new
        }
        self._channels.start(commands)
        self._channels.send(list(commands), payload.first_words())
        self._started |= dict.fromkeys(commands, now)

    def _feed(self) -> None:
        """Send whyhang to some of those that have none; making it does not count as their time."""
        under_way = sum(host.fed for host in self._connecting())
        for host in self._connecting():
            if host.hello is None or host.hello.has or host.fed or under_way >= AT_ONCE:
                continue
            began = time.monotonic()
            self._tell(f"making what runs in Python {host.hello.python}")
            fitting = payload.fitting(host.hello)
            self._until += time.monotonic() - began
            if fitting is None:
                self.give_up(host, remote_host.no_whyhang(host.name, host.hello.python))
                continue
            python, program = fitting
            about = {"sha256": hashlib.sha256(program).hexdigest(), "python": python}
            order = wire.question("payload", [host.own_name], program, **about)
            self._channels.send([host.channel], order)
            host.fed = True
            under_way += 1

    def _listen_for(self, seconds: float) -> None:
        """Take what comes within that time, however much it is."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                event = self._channels.events.get(timeout=left)
            except queue.Empty:
                return
            if isinstance(event, Closed):
                for host in self._by_channel.get(event.channel, []):
                    host.busy = False
                    if host.gap is None and not host.alive:
                        host.silent = remote_host.is_silent(self.reach.kind, event.errors)
                    host.gap = host.gap or remote_host.ended(
                        host.name, self.reach.kind, event.code, event.errors, alive=host.alive
                    )
            elif (speaker := self._speaker(event.channel, event.answer.name)) is not None:
                self._came(speaker, event.answer)

    def _came(self, host: RemoteHost, answer: Answer) -> None:
        if host.gap is not None:
            return
        match answer.say:
            case "alive":
                host.alive = True
            case "no-python":
                self.give_up(host, remote_host.no_python(host.name, self.reach.kind))
            case "hello":
                host.node = answer.node[:255]
                host.alive = True
                host.hello = answer
            case "ready":
                host.ready = True
            case "clock":
                now = time.time()
                host.round_trip = now - answer.sent
                host.offset = answer.now - (now + answer.sent) / 2
                host.busy = False
            case "done":
                host.busy = False
            case "trouble":
                remedy = plain(answer.remedy).rstrip(".")
                self._fails(host, host_gap(host.name, plain(answer.why), remedy))
            case other if other in self.handlers:
                self.handlers[other](host, answer)

    def _fails(self, host: RemoteHost, gap: Gap, further: Gap | None = None) -> None:
        """Leave a host out. What it sent before counts; then ``further`` says what is missing."""
        if host.sent:
            host.busy = False
            self.gaps.append(further or gap)
        else:
            self.give_up(host, gap)

    def _speaker(self, channel: str, own_name: str) -> RemoteHost | None:
        """Find who speaks: alone on its channel, or by the name that it gives itself."""
        hosts, short = self._by_channel.get(channel, []), own_name.partition(".")[0]
        known = [host for host in hosts if host.own_name == own_name or len(hosts) == 1]
        new = [h for h in hosts if not h.own_name and h.name.partition(".")[0] == short]
        for host in (*known, *new)[:1]:
            host.own_name = own_name
            return host
        return None

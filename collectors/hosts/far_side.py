"""What runs on each host: the collector of ``whyhang collect``, asked over standard input.

Each line of standard input is an order (see ``wire.py``). The process ends with its standard
input, at its deadline or on a signal, and leaves nothing behind.
"""

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from whyhang.analyzer.errors import WhyhangError
from whyhang.analyzer.facts import replace
from whyhang.analyzer.reading import Reader
from whyhang.collectors import READERS
from whyhang.collectors.hosts import wire
from whyhang.collectors.hosts.planners import local
from whyhang.collectors.hosts.reach import Selector
from whyhang.collectors.hosts.reduce import packed, reduced
from whyhang.collectors.live.capture import Capture, Named
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes import logs
from whyhang.collectors.live.probes.probe import Options
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.sockets import own_addresses
from whyhang.collectors.logs.reader import LogReader

PATIENCE = 120.0
"""Seconds without an order or work after which a far side ends, whatever the channel says."""


class _Job(NamedTuple):
    """A job that is looked at here; ``sent`` is what the other side has of it, by path."""

    name: str
    capture: Capture
    sent: dict[str, bytes]


class FarSide:
    """The jobs that are looked at here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: list[_Job] = []
        self._readers: Sequence[Reader] = ()
        self._whole = False

    def do(self, order: Mapping[str, Any]) -> None:
        """Follow one order. What goes wrong is an answer, too."""
        try:
            match order["do"]:
                case "find":
                    self._find(order)
                case "look":
                    self._look(order)
                case "ask":
                    self._ask(order)
                case "clock":
                    self.say("clock", sent=order["sent"], now=time.time())
        except WhyhangError as error:
            self.say("trouble", why=error.message, remedy=error.remedy)
        except Exception as error:  # noqa: BLE001 - it is told where somebody reads it
            self.say("trouble", why=f"{type(error).__name__}: {error}", remedy="")

    def _find(self, order: Mapping[str, Any]) -> None:
        selector = msgspec.convert(order["selector"], Selector)
        options = msgspec.convert(order["options"], Options)
        self._readers = (*READERS, LogReader(order.get("patterns") or ()))
        self._whole = bool(order.get("whole"))
        hostname = (order.get("called") or {}).get(self.name) or os.uname().nodename
        pids = (order.get("pids") or {}).get(self.name) or ()
        host = Host(Proc())
        seen: set[int] = set()
        troubles: list[WhyhangError] = []
        for pid in selector.seeds(host, pids):
            if pid in seen:
                continue
            try:
                taken = Capture(pid, options, lambda _: None, hostname=hostname)
            except WhyhangError as error:
                troubles.append(error)
                continue
            seen |= {pid, *(member.pid for member in taken.job.members)}
            first = (taken.job.ranks or taken.job.members)[0].pid
            key = host.key(first)  # of the ranks on other hosts, too
            name = host.script(first) if key is None else " ".join(filter(None, key))
            self._jobs.append(_Job(name, taken, {}))
        if not self._jobs and troubles:
            raise troubles[0]
        others: list[str] = []
        written: dict[str, bool] = {}
        for taken in (job.capture for job in self._jobs):
            written |= logs.identities(taken)
            there = local.known(taken.host, taken.job)
            if there is not None and order.get("grows"):
                others += local.others_of(taken.host, there)
        self.say(
            "found",
            others=others,
            logs=written,
            own=sorted(own_addresses(host.proc, os.getpid())),
            jobs=[{"name": job.name, "ranks": len(job.capture.job.ranks)} for job in self._jobs],
        )

    def _look(self, order: Mapping[str, Any]) -> None:
        chosen = order.get("job")
        self._jobs = [job for job in self._jobs if chosen is None or job.name == chosen]
        others = frozenset((order.get("others_logs") or {}).get(self.name) or ())
        for taken in (job.capture for job in self._jobs):
            taken.options = replace(taken.options, others_logs=others)
            taken.take(self._send_parts)  # where the second look does not come, there is one
        self._send_parts()
        self.say("done")

    def _ask(self, order: Mapping[str, Any]) -> None:
        pids = (order.get("pids") or {}).get(self.name) or []
        for taken in (job.capture for job in self._jobs):
            members = {member.pid for member in taken.job.members}
            own = [Named(taken.hostname, pid) for pid in pids if pid in members]
            if order["what"] == "look_more":
                taken.look_more(int(order["count"]), spacing=float(order["spacing"]))
            elif own:
                taken.take_more(order["what"], own)
        self._send_parts()
        self.say("done")

    def _send_parts(self) -> None:
        """Send what is new of each job."""
        for number, job in enumerate(self._jobs):
            bundle = job.capture.bundle()
            if not self._whole:
                bundle = reduced(bundle, self._readers)
            new = {path: data for path, data in bundle.files.items() if job.sent.get(path) != data}
            job.sent.update(new)
            if new:
                self.say("part", packed(bundle, new), number=number)

    def say(self, kind: str, blob: bytes = b"", **fields: object) -> None:
        """Send a message."""
        sys.stdout.writelines(wire.answer(self.name, kind, blob, **fields))
        sys.stdout.flush()


def main(name: str) -> None:
    """Follow orders from standard input until it ends."""
    orders: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_read, args=(name, orders), daemon=True).start()
    far = FarSide(name)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, queue.Empty):
        try:
            far.say("ready")
            while (order := orders.get(timeout=PATIENCE)) is not None:
                if order["do"] == "find":
                    signal.alarm(max(1, int(order.get("deadline") or PATIENCE)))
                far.do(order)
        finally:
            signal.alarm(0)
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)


def _read(name: str, orders: queue.SimpleQueue[Mapping[str, Any] | None]) -> None:
    """Hand orders on. When there will be no more, what is under way is interrupted."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        while line := sys.stdin.buffer.readline():
            order = json.loads(line)
            left = int(order.get("size") or 0)
            while left > 0 and (data := sys.stdin.buffer.read(min(left, 1 << 20))):
                left -= len(data)
            if order["do"] != "payload" and name in (order.get("to") or [name]):
                orders.put(order)
    orders.put(None)
    os.kill(os.getpid(), signal.SIGTERM)

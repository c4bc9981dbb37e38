"""The kernel's log of this host, as far as it may be read and as far as it is about the job.

``/dev/kmsg`` gives one record a read and never waits (Documentation/ABI/testing/dev-kmsg); where
it is closed to this user, ``journalctl -k`` may still be open. Times of boot become times of
day. Kept are lines since the job began that tell of GPUs, links, memory, storage or processes,
without those about processes that belong to others.
"""

import contextlib
import os
import re
import time

from whyhang.analyzer.facts import Record
from whyhang.collectors import tables
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.programs import run
from whyhang.collectors.live.words import gap

DEVICE = "/dev/kmsg"
BEFORE = 120.0
"""Seconds before the start of the job from which lines are kept: what it found as it began."""

SLACK = 2.0
"""Seconds by which the two clocks, of processes and of the kernel's log, may differ."""

LIMIT = 2.0
"""Seconds for the journal."""

MAX_LINES = 2000
_RECORD = 16 << 10


class _Lines(Record):
    telling: re.Pattern[str]
    pid: re.Pattern[str]
    name: re.Pattern[str]
    closed: re.Pattern[str]
    journal_line: re.Pattern[str]


_LINES = tables.patterns(__package__, "kernel_log.toml", _Lines)


Rows = list[tuple[float, str]]


def collect(site: Site, collected: Collected) -> None:
    """Read the log and keep what may be about this job."""
    stats = [site.host.stats.get(member.pid) for member in site.job.members]
    starts = [at for stat in stats if stat and (at := site.host.proc.started_at(stat))]
    since = min(starts, default=0.0) - BEFORE
    try:
        try:
            rows = _records(DEVICE, since)
        except OSError:
            rows = _journal(since)
    except OSError as error:
        collected.facts.append(gap("kernel-log", why=error))
        return
    about = _About(site)
    kept = [
        f"{_stamp(moment)} {about.host} kernel: {text}"
        for moment, text in rows
        if moment >= since
        and _LINES.telling.search(text)
        and about.concerns(text, before=moment < since + BEFORE - SLACK)
    ][-MAX_LINES:]
    if kept:
        data = "".join(f"{line}\n" for line in kept).encode()
        collected.files.append(site.file("kernel.log", "kernel-log", data))


class _About:
    """Tells whether a line can be about the job: not if it names a process of someone else.

    In a container the kernel's numbers are not ours: what equals one of ours is chance. The host
    then gets a name of its own.
    """

    def __init__(self, site: Site) -> None:
        host, members = site.host, {member.pid for member in site.job.members}
        self._own = members.union(*(host.proc.thread_ids(pid) for pid in members))
        self._others = set(host.stats) - self._own
        self._names = {host.stats[pid].comm for pid in members if pid in host.stats}
        self._foreign = host.proc.in_container()
        name = re.sub(r"[^\w.-]", "-", site.hostname) or "host"
        self.host = f"kernel-below-{name}" if self._foreign else name

    def concerns(self, text: str, *, before: bool = False) -> bool:
        """Return False for a line about a living process that is not of the job, or a dead one.

        ``before``: the line is older than the job, which had no process then.
        """
        named = _LINES.pid.search(text)
        if named is None:
            return True
        name = _LINES.name.search(text)
        word = (name[1] or name[2]) if name is not None else ""
        pid = int(named[1])
        if word.startswith("nv"):  # the driver's own threads and tools
            return True
        if before:
            return False
        may_be = not word or word in self._names
        if self._foreign:
            return may_be
        return pid in self._own or (pid not in self._others and may_be)


def _records(device: str, since: float = 0.0) -> Rows:
    """Read the records that the kernel still has, from ``since`` on. Raises ``OSError``."""
    offset = time.time() - time.monotonic()
    rows: Rows = []
    descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as log:
        while True:
            with contextlib.suppress(BrokenPipeError):  # overwritten meanwhile: the next is there
                record = log.read(_RECORD)
                if not record:  # that was the last one
                    return rows
                row = _parsed(record, offset)
                if row is not None and row[0] >= since:
                    rows.append(row)


def _parsed(record: bytes, offset: float) -> tuple[float, str] | None:
    """Take ``priority,number,microseconds,flags;text`` apart; lines that follow are details."""
    head, _, text = record.partition(b";")
    fields = head.split(b",")
    if len(fields) < 3 or not fields[2].isdigit():
        return None
    line = text.partition(b"\n")[0]
    return offset + int(fields[2]) / 1e6, line.decode("utf-8", "replace")


def _journal(since: float) -> Rows:
    """Read the same of the journal. Raises ``OSError``."""
    arguments = ("journalctl", "-k", "-b", "--no-pager", "-o", "short-unix")
    outcome = run(*arguments, f"--since=@{max(0, int(since))}", limit=LIMIT)
    if outcome.timed_out:
        raise OSError(f"journalctl did not come back within {LIMIT:g} s")
    found = _LINES.journal_line.findall(outcome.output.decode("utf-8", "replace"))
    if not found and (outcome.code != 0 or _LINES.closed.search(outcome.errors)):
        raise OSError("/dev/kmsg and the journal are closed to this user")
    return [(float(moment), message) for moment, message in found]


def _stamp(moment: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment % 1 * 1e6):06d}+00:00"


PROBE = Probe(name="the kernel's log of this host", limit=LIMIT + 0.5, collect=collect)

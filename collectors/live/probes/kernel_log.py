"""The kernel's log of this host, as far as it may be read and as far as it is about the job.

``/dev/kmsg`` gives one record a read and never waits (Documentation/ABI/testing/dev-kmsg); where
it is closed to this user, ``journalctl -k`` may still be open. Times of boot become times of
day. Kept are lines since the job began that tell of GPUs, links, memory, storage or processes,
without those about processes that belong to others.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator

from whyhang.analyzer.model import Gap, Record
from whyhang.analyzer.redact import redact_bytes
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Job
from whyhang.collectors.live.programs import Command, Outcome, Plan, run_all

DEVICE = "/dev/kmsg"
BEFORE = 120.0
"""Seconds before the start of the job from which lines are kept: what it found as it began."""

SLACK = 2.0
"""Seconds by which the two clocks, of processes and of the kernel's log, may differ."""

LIMIT = 2.0
MAX_LINES = 2000
_RECORD = 16 << 10
_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of linux/proc_ns.h

TELLING = re.compile(
    r"NVRM|\bS?Xid\b|nvidia|nvlink|nvswitch|oom-kill|oom_reaper|[Oo]ut of memory|Killed process"
    r"|blocked (?:in I/O wait )?for more than|segfault at|traps: |general protection"
    r"|soft lockup|hard LOCKUP|rcu.*(?:stall|detected)|AER:|PCIe Bus Error|pcieport.*DPC"
    r"|mce: |\[Hardware Error\]|EDAC|Memory failure|mlx[45]_core|(?:NIC )?Link is (?:Down|Up)"
    r"|bnxt_en|infiniband|nfs: |NFS: |Lustre|ceph: |I/O error|EXT4-fs error|XFS .*(?:error|hut)"
    r"|nvme.*(?:timeout|reset|failed)|DMAR|IOMMU|AMD-Vi|ibv|rdma|efa ",
)
_PID = re.compile(
    r"(?:\bpid='?|[Kk]ill(?:ed)? process |reaped process |\btask [^ :]+:|^[^ :\[]+\[)(\d+)"
)
_NAME = re.compile(
    r"(?:\bname=|[Kk]illed process \d+ \(|reaped process \d+ \(|\btask(?:=| ))([^ ,:)(]+)"
    r"|^([^ :\[]+)\[\d+\]: segfault"
)


_CLOSED = re.compile(
    r"insufficient permissions|not seeing messages|No journal files", re.IGNORECASE
)


class KernelLog(Record):
    """What was kept of the kernel's log, as lines with time of day, and what was in the way."""

    data: bytes = b""
    gaps: tuple[Gap, ...] = ()


def kernel_log(
    host: Host,
    job: Job,
    hostname: str,
    *,
    device: str = DEVICE,
    limit: float = LIMIT,
    journal: bool = True,
) -> KernelLog:
    """Read the log and keep what may be about this job.

    Without ``journal`` nothing is run that may take longer than a few milliseconds.
    """
    since = _began(host, job) - BEFORE
    rows, trouble = _records(device, since)
    if rows is None and device == DEVICE and journal:
        rows, trouble = _journal(since, limit)
    if rows is None:
        return KernelLog(gaps=(_gap(trouble),))
    about = _About(host, job)
    kept = [
        f"{_stamp(moment)} {about.host(hostname)} kernel: {text}"
        for moment, text in rows
        if moment >= since
        and TELLING.search(text)
        and about.concerns(text, before=moment < since + BEFORE - SLACK)
    ][-MAX_LINES:]
    return KernelLog(data=redact_bytes("".join(f"{line}\n" for line in kept).encode()))


def _began(host: Host, job: Job) -> float:
    stats = (host.stats.get(member.pid) for member in job.members)
    began = [at for stat in stats if stat is not None if (at := host.proc.started_at(stat))]
    return min(began, default=0.0)


class _About:
    """Tells whether a line can be about the job: not if it names a process of someone else."""

    def __init__(self, host: Host, job: Job) -> None:
        self._own = {member.pid for member in job.members}
        for pid in tuple(self._own):
            self._own.update(host.proc.thread_ids(pid))
        self._others = set(host.stats) - self._own
        stats = (host.stats.get(member.pid) for member in job.members)
        self._names = {stat.comm for stat in stats if stat is not None}
        # In a container the kernel's numbers are not ours: what equals one of ours is chance.
        own = host.proc.link_of("self/ns/pid")
        self._foreign = own is not None and own != _FIRST_PID_NAMESPACE

    def host(self, hostname: str) -> str:
        """Name the host; one whose numbers are not ours gets a name of its own."""
        name = re.sub(r"[^\w.-]", "-", hostname) or "host"
        return f"kernel-below-{name}" if self._foreign else name

    def concerns(self, text: str, *, before: bool = False) -> bool:
        """Say no to a line about a living process that is not of the job, or a dead one's name.

        ``before``: it is older than the job, which had no process then.
        """
        told = _PID.search(text)
        if told is None:
            return True
        name = _NAME.search(text)
        word = (name[1] or name[2]) if name is not None else ""
        pid = int(told[1])
        if word.startswith("nv"):  # the driver's own threads and tools
            return True
        if before:
            return False
        if self._foreign:
            return not word or word in self._names
        if pid in self._own:
            return True
        return pid not in self._others and (not word or word in self._names)


Rows = list[tuple[float, str]]


def _records(device: str, since: float = 0.0) -> tuple[Rows | None, str]:
    """Read the records that the kernel still has; None and why where it may not be read.

    Those before ``since`` are left out, in seconds since the epoch.
    """
    offset = time.time() - time.monotonic()
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return None, f"{device}: {error.strerror}"
    rows: Rows = []
    try:
        while True:
            try:
                record = os.read(descriptor, _RECORD)
            except BrokenPipeError:  # overwritten while it was read: the next one is there
                continue
            if not record:
                break
            row = _parsed(record, offset, since)
            if row is not None:
                rows.append(row)
    except BlockingIOError:
        pass
    except OSError as error:
        return None, f"{device}: {error.strerror}"
    finally:
        os.close(descriptor)
    return rows, ""


def _parsed(record: bytes, offset: float, since: float) -> tuple[float, str] | None:
    """Take ``priority,number,microseconds,flags;text`` apart; lines that follow are details."""
    fields = record.split(b",", 3)
    if len(fields) < 3:
        return None
    told = fields[2].partition(b";")[0]
    if not told.isdigit() or (moment := offset + int(told) / 1e6) < since:
        return None
    line = record.partition(b";")[2].partition(b"\n")[0]
    return moment, line.decode("utf-8", "replace")


class _Journal(Plan):
    """Runs journalctl once."""

    def __init__(self, since: float, limit: float) -> None:
        self._since = since
        self._limit = limit

    def begin(self, pid: int) -> Command:
        arguments = ("journalctl", "-k", "-b", "--no-pager", "-o", "short-unix")
        since = f"--since=@{max(0, int(self._since))}"
        return Command(pid=pid, arguments=(*arguments, since), limit=self._limit)


def _journal(since: float, limit: float) -> tuple[Rows | None, str]:
    (outcome,) = run_all([0], _Journal(since, limit))
    if outcome.timed_out:
        return None, f"journalctl did not come back within {limit:g} s"
    rows = list(_journal_rows(outcome))
    if not rows and (outcome.code != 0 or _CLOSED.search(outcome.errors)):
        return None, "/dev/kmsg and the journal are closed to this user"
    return rows, ""


def _journal_rows(outcome: Outcome) -> Iterator[tuple[float, str]]:
    for line in outcome.output.decode("utf-8", "replace").splitlines():
        moment, _, rest = line.partition(" ")
        _, kernel, text = rest.partition(" kernel: ")
        if kernel:
            with contextlib.suppress(ValueError):
                yield float(moment), text


def _stamp(moment: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment % 1 * 1e6):06d}+00:00"


def _gap(why: str) -> Gap:
    return Gap(
        what="the kernel's log of this host",
        why=why,
        cost="GPU faults (Xid), processes killed for lack of memory and stuck storage do not show",
        remedy="Run as root, with CAP_SYSLOG or in the group systemd-journal, or give whyhang "
        "the output of dmesg -T",
    )

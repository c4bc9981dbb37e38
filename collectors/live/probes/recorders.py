"""Recorder dumps of a live job: those it has written, and new ones if it is asked.

``places.py`` knows where torch writes. Files of an earlier run lie in the same place, so only
what is newer than the process and of a job of the same size counts. Asking writes to the job:
into the pipe that ``TORCH_NCCL_DEBUG_INFO_PIPE_FILE`` names (torch 2.3+), or a request to torch's
debug server (2.10+). Both are for those who say so.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from whyhang.analyzer.model import Gap, Record, Role, Trust, Who
from whyhang.collectors.flight_recorder.places import prefixes
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Job

MAX_BYTES = 64 * 1024 * 1024
PATIENCE = 5.0
"""Seconds that a job gets to write the dumps it was asked for; torch itself takes up to 15."""

_SLACK = 2.0  # seconds by which the clock of a shared file system may be behind
_PAGE = re.compile(r"<h2>Rank (\d+):[^<]*</h2>\s*<pre>(.*?)</pre>", re.DOTALL)


class RankProcess(Record):
    """What is needed of one rank: where it runs and since when.

    ``root`` and ``cwd`` are how its file system and working directory are reached from here
    (``/proc/PID/root``, ``/proc/PID/cwd``). ``world_size`` is that of its job, where known.
    """

    pid: int
    rank: int
    environ: dict[str, str]
    started_at: float | None
    root: str
    cwd: str
    world_size: int | None = None


class Recorded(Record):
    """One dump. ``path`` is where the job sees it."""

    rank: int
    pid: int | None
    path: str
    data: bytes
    modified_at: float | None = None


class Records(Record):
    """Dumps that were found, what was in the way, and what was done to the job for them."""

    dumps: tuple[Recorded, ...] = ()
    gaps: tuple[Gap, ...] = ()
    touched: tuple[str, ...] = ()


def rank_processes(host: Host, job: Job) -> list[RankProcess]:
    """Say of each rank of a job what is needed to find its recorder's dump."""
    found = []
    for member in job.members:
        stat_ = host.stats.get(member.pid)
        if member.role is Role.RANK and member.rank is not None and stat_ is not None:
            found.append(
                RankProcess(
                    pid=member.pid,
                    rank=member.rank,
                    environ=host.environ(member.pid),
                    started_at=host.proc.started_at(stat_),
                    root=f"{host.proc.root}/{member.pid}/root",
                    cwd=f"{host.proc.root}/{member.pid}/cwd",
                    world_size=job.world_size,
                )
            )
    return found


def newest(records: Iterable[Records]) -> tuple[Recorded, ...]:
    """Of several dumps of one rank, keep the one that was had last."""
    by_rank = {dump.rank: dump for taken in records for dump in taken.dumps}
    return tuple(by_rank[rank] for rank in sorted(by_rank))


def written(ranks: Iterable[RankProcess]) -> Records:
    """Take the newest dump of each rank that its present process has written."""
    dumps, gaps = [], []
    for own in ranks:
        found, unfit = _newest(own)
        if found is not None:
            dumps.append(found)
        elif unfit:
            gaps.append(_unfit(own, unfit))
    return Records(dumps=tuple(dumps), gaps=tuple(gaps))


def asked(ranks: Iterable[RankProcess], patience: float = PATIENCE) -> Records:
    """Ask the ranks that have a pipe for a dump, and take what they then write."""
    since = time.time()
    waiting: dict[int, RankProcess] = {}
    gaps, touched = [], []
    for own in ranks:
        stem = own.environ.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
        if not stem:
            why = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE was not set at its start"
            gaps.append(_unasked(own, why, "set it for the next run, with TORCH_FR_BUFFER_SIZE"))
            continue
        trouble = _knock(_reach(own, f"{stem}{own.rank}.pipe"))
        if trouble is None:
            waiting[own.rank] = own
            touched.append(f"asked rank {own.rank} for a recorder dump through its pipe")
        else:
            gaps.append(_unasked(own, trouble))
    dumps = list(_arrivals(waiting, since, patience))
    got = {dump.rank for dump in dumps}
    gaps += [
        _unasked(own, f"it wrote none within {patience:g} s of being asked")
        for own in waiting.values()
        if own.rank not in got
    ]
    return Records(dumps=tuple(dumps), gaps=tuple(gaps), touched=tuple(touched))


def from_debug_server(address: str, limit: float) -> Records:
    """Ask torch's debug server ("host:port") for the recorders of all ranks."""
    import html  # noqa: PLC0415 - a live look must not wait for them
    import http.client  # noqa: PLC0415

    host, _, port = address.rpartition(":")
    touched = (f"asked the debug server at {address} for the recorders of all ranks",)
    if not port.isdecimal():
        return Records(gaps=(_no_server(address, "that is no HOST:PORT"),))
    connection = http.client.HTTPConnection(host or "localhost", int(port), timeout=limit)
    try:
        connection.request("GET", "/fr_trace_json")
        answer = connection.getresponse()
        page = answer.read(MAX_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return Records(gaps=(_no_server(address, f"it did not answer ({error})"),), touched=touched)
    finally:
        connection.close()
    dumps = tuple(
        Recorded(rank=int(rank), pid=None, path=address, data=html.unescape(text).encode())
        for rank, text in _PAGE.findall(page)
    )
    if dumps:
        return Records(dumps=dumps, touched=touched)
    return Records(
        gaps=(_no_server(address, f"it answered {answer.status} {answer.reason[:160]}, no dumps"),),
        touched=touched,
    )


def _newest(own: RankProcess) -> tuple[Recorded | None, str]:
    """Find the newest dump that fits; where there is none but others, say why they do not."""
    best: Recorded | None = None
    unfit = ""
    for prefix in prefixes(own.environ):
        path = f"{prefix}{own.rank}"
        modified = _modified(_reach(own, path))
        if modified is None or (best is not None and modified <= (best.modified_at or 0)):
            continue
        if own.started_at is not None and modified < own.started_at - _SLACK:
            unfit = unfit or f"{path} is older than the process, so it is of an earlier run"
            continue
        data = _read(_reach(own, path))
        size = _world_size(data) if data else None
        if size is not None and own.world_size not in {None, size}:
            unfit = unfit or f"{path} is of a job of {size} ranks, and this one has more or fewer"
        elif data:
            best = Recorded(rank=own.rank, pid=own.pid, path=path, data=data, modified_at=modified)
    return best, unfit


def _world_size(data: bytes) -> int | None:
    from whyhang.collectors.flight_recorder import reader  # noqa: PLC0415 - a live look must not wait

    return reader.world_size_of(data)


def _arrivals(waiting: dict[int, RankProcess], since: float, patience: float) -> Iterable[Recorded]:
    """Wait for dumps newer than the moment of asking, each until it grows no more."""
    deadline = time.monotonic() + patience
    sizes: dict[int, int] = {}
    left = dict(waiting)
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        for rank, own in list(left.items()):
            found, _ = _newest(own)
            if found is None or (found.modified_at or 0) < since - _SLACK:
                continue
            if sizes.get(rank) == len(found.data):
                del left[rank]
                yield found
            sizes[rank] = len(found.data)


def _reach(own: RankProcess, path: str) -> str:
    """Give the path by which a file of that process is reached from here."""
    return f"{own.root}{path}" if path.startswith("/") else f"{own.cwd}/{path}"


def _modified(path: str) -> float | None:
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None


def _read(path: str) -> bytes | None:
    """Read a plain file; never wait for one that turned into a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            return stream.read(MAX_BYTES)
        except OSError:
            return None


def _knock(path: str) -> str | None:
    """Write a word into a pipe that is being read; say why that cannot be done."""
    try:
        if not stat.S_ISFIFO(Path(path).stat().st_mode):
            return f"{path} is no pipe"
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENXIO:
            return "nobody reads its pipe"
        return f"its pipe cannot be written to ({getattr(error, 'strerror', None) or error})"
    try:
        os.write(descriptor, b"whyhang\n")
    except OSError as error:
        return f"its pipe cannot be written to ({error.strerror})"
    finally:
        os.close(descriptor)
    return None


def _who(own: RankProcess) -> Who:
    return Who(rank=own.rank, trust=Trust.ENVIRONMENT, pid=own.pid)


def _unfit(own: RankProcess, why: str) -> Gap:
    return Gap(
        what=f"the recorder of rank {own.rank}",
        why=why,
        cost="the rank has written no dump of this run yet",
        remedy="whyhang --ask-recorders PID asks for one, if the job has set "
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
        who=_who(own),
    )


def _unasked(own: RankProcess, why: str, remedy: str = "") -> Gap:
    return Gap(
        what=f"a recorder dump of rank {own.rank}",
        why=why,
        cost="how far it came is not known from its recorder",
        remedy=remedy,
        who=_who(own),
    )


def _no_server(address: str, why: str) -> Gap:
    return Gap(
        what=f"torch's debug server at {address}",
        why=why,
        cost="the recorders were not read",
        remedy="Its port is the one given to start_debug_server (25999 unless chosen), "
        "on the host of rank 0",
    )

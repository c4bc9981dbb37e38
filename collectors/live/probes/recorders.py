"""Recorder dumps of a live job: those it has written, and new ones if it is asked.

``places.py`` knows where torch writes. Files of an earlier run lie in the same place, so only
what is newer than the process and of a job of the same size counts. Asking writes to the job:
into the pipe that ``TORCH_NCCL_DEBUG_INFO_PIPE_FILE`` names (torch 2.3+), or a request to torch's
debug server (2.10+). Both are for those who say so.
"""

from __future__ import annotations

import html
import http.client
import re
import time
from collections.abc import Iterable

from whyhang.analyzer.model import Gap, Record, Role, Trust, Who
from whyhang.collectors.files.bundle import Entry
from whyhang.collectors.flight_recorder.places import prefixes
from whyhang.collectors.live.files import MAX_BYTES, Files
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Job
from whyhang.collectors.live.probes.probe import Collected, File, Probe, Site

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


def collect(site: Site) -> Collected:
    """Take the recorders' dumps that the ranks have written, and new ones if told to."""
    site.wait_for_last()
    files, ranks, options = site.host.files, rank_processes(site.host, site.job), site.options
    records = [written(files, ranks)]
    if options.ask:
        records.append(asked(files, ranks))
    if options.debug_server:
        records.append(from_debug_server(options.debug_server, options.limit))
    newest = {dump.rank: dump for taken in records for dump in taken.dumps}
    return Collected(
        facts=tuple(gap for taken in records for gap in taken.gaps),
        files=tuple(
            _file(newest[rank], site.job.rank_width(), site.hostname) for rank in sorted(newest)
        ),
        touched=tuple(text for taken in records for text in taken.touched),
    )


def _file(dump: Recorded, width: int, hostname: str) -> File:
    entry = Entry(
        path=f"rank{dump.rank:0{width}}.flight_recorder",
        kind="flight-recorder",
        host=hostname if dump.pid is not None else None,
        pid=dump.pid,
        rank=dump.rank,
        trust=Trust.ENVIRONMENT if dump.pid is not None else Trust.CONTENT,
        role=Role.RANK.value,
        taken_at=dump.modified_at,
    )
    return File(entry=entry, data=dump.data)


def rank_processes(host: Host, job: Job) -> list[RankProcess]:
    """Say of each rank of a job what is needed to find its recorder's dump."""
    return [
        RankProcess(
            pid=member.pid,
            rank=member.rank,
            environ=host.environ(member.pid),
            started_at=host.proc.started_at(host.stats[member.pid]),
            root=f"{host.proc.root}/{member.pid}/root",
            cwd=f"{host.proc.root}/{member.pid}/cwd",
            world_size=job.world_size,
        )
        for member in job.ranks
        if member.rank is not None and member.pid in host.stats
    ]


def written(files: Files, ranks: Iterable[RankProcess]) -> Records:
    """Take the newest dump of each rank that its present process has written."""
    dumps, gaps = [], []
    for own in ranks:
        found, unfit = _newest(files, own)
        if found is not None:
            dumps.append(found)
        elif unfit:
            gaps.append(_unfit(own, unfit))
    return Records(dumps=tuple(dumps), gaps=tuple(gaps))


def asked(files: Files, ranks: Iterable[RankProcess], patience: float = PATIENCE) -> Records:
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
        trouble = files.knock(_reach(own, f"{stem}{own.rank}.pipe")).trouble
        if trouble:
            gaps.append(_unasked(own, trouble))
        else:
            waiting[own.rank] = own
            touched.append(f"asked rank {own.rank} for a recorder dump through its pipe")
    dumps = list(_arrivals(files, waiting, since, patience))
    got = {dump.rank for dump in dumps}
    gaps += [
        _unasked(own, f"it wrote none within {patience:g} s of being asked")
        for own in waiting.values()
        if own.rank not in got
    ]
    return Records(dumps=tuple(dumps), gaps=tuple(gaps), touched=tuple(touched))


def from_debug_server(address: str, limit: float) -> Records:
    """Ask torch's debug server ("host:port") for the recorders of all ranks."""
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


def _newest(files: Files, own: RankProcess) -> tuple[Recorded | None, str]:
    """Find the newest dump that fits; where there is none but others, say why they do not."""
    best: Recorded | None = None
    unfit = ""
    for prefix in prefixes(own.environ):
        path = f"{prefix}{own.rank}"
        there = files.read(_reach(own, path), most=0)
        modified = there.modified_at if there.is_file else None
        if modified is None or (best is not None and modified <= (best.modified_at or 0)):
            continue
        if own.started_at is not None and modified < own.started_at - _SLACK:
            unfit = unfit or f"{path} is older than the process, so it is of an earlier run"
            continue
        data = files.read(_reach(own, path)).data
        size = _world_size(data) if data else None
        if size is not None and own.world_size not in {None, size}:
            unfit = unfit or f"{path} is of a job of {size} ranks, and this one has more or fewer"
        elif data:
            best = Recorded(rank=own.rank, pid=own.pid, path=path, data=data, modified_at=modified)
    return best, unfit


def _world_size(data: bytes) -> int | None:
    from whyhang.collectors.flight_recorder import reader  # noqa: PLC0415 - a heavy format

    return reader.world_size_of(data)


def _arrivals(
    files: Files, waiting: dict[int, RankProcess], since: float, patience: float
) -> Iterable[Recorded]:
    """Wait for dumps newer than the moment of asking, each until it grows no more."""
    deadline = time.monotonic() + patience
    sizes: dict[int, int] = {}
    left = dict(waiting)
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        for rank, own in list(left.items()):
            found, _ = _newest(files, own)
            if found is None or (found.modified_at or 0) < since - _SLACK:
                continue
            if sizes.get(rank) == len(found.data):
                del left[rank]
                yield found
            sizes[rank] = len(found.data)


def _reach(own: RankProcess, path: str) -> str:
    """Give the path by which a file of that process is reached from here."""
    return f"{own.root}{path}" if path.startswith("/") else f"{own.cwd}/{path}"


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


PROBE = Probe(
    name="the recorders of the ranks",
    takes="dumps that torch has written; with --ask-recorders or --debug-server new ones",
    limit=60.0,
    writes=("rank*.flight_recorder", "gaps.json"),
    collect=collect,
)

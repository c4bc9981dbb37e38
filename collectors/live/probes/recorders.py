"""Recorder dumps of a live job: those it has written, and new ones if it is asked.

``places.py`` knows where torch writes. Files of an earlier run lie in the same place, so only
what is newer than the process and of a job of the same size counts. Asking writes to the job:
into the pipe that ``TORCH_NCCL_DEBUG_INFO_PIPE_FILE`` names (torch 2.3+), or a request to torch's
debug server (2.10+). Both are for those who say so.
"""

import contextlib
import html
import http.client
import io
import pickletools
import re
import time
from collections.abc import Iterator

from whyhang.analyzer.facts import Gap, Role, Trust, Who, replace
from whyhang.analyzer.redact import redact, redact_bytes
from whyhang.collectors.files.bundle import Entry
from whyhang.collectors.flight_recorder.places import prefixes
from whyhang.collectors.flight_recorder.reader import world_size_of
from whyhang.collectors.live.files import MAX_BYTES
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob, JobProcess
from whyhang.collectors.live.probes.probe import BundleFile, Collected, Probe, Site

PATIENCE = 5.0
"""Seconds that a job gets to write the dumps it was asked for; torch itself takes up to 15."""

_SLACK = 2.0  # seconds by which the clock of a shared file system may be behind
_TEXTS = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
_PAGE = re.compile(r"<h2>Rank (\d+):[^<]*</h2>\s*<pre>(.*?)</pre>", re.DOTALL)


def collect(site: Site, collected: Collected) -> None:
    """Take the dumps that the ranks have written, and new ones if told to; the last one counts."""
    site.wait_for_last()
    every = written(site.host, site.job, collected)
    if site.options.ask:
        every += asked(site.host, site.job, collected)
    if site.options.debug_server:
        every += from_debug_server(site.options.debug_server, site.options.limit, collected)
    dumps = {dump.entry.rank or 0: dump for dump in every}
    width = site.job.rank_width()
    collected.files += [_named(rank, dumps[rank], width, site.hostname) for rank in sorted(dumps)]


def _named(rank: int, file: BundleFile, width: int, hostname: str) -> BundleFile:
    entry = replace(
        file.entry,
        path=f"rank{rank:0{width}}.flight_recorder",
        host=hostname if file.entry.pid is not None else None,
    )
    return replace(file, entry=entry)


def _numbered(host: Host, job: HostJob) -> list[JobProcess]:
    return [each for each in job.ranks if each.rank is not None and each.pid in host.stats]


def written(host: Host, job: HostJob, collected: Collected) -> list[BundleFile]:
    """Take the newest dump of each rank that its present process has written."""
    dumps = []
    for rank in _numbered(host, job):
        dump, unfit = _newest(host, rank, job.world_size)
        if dump is not None:
            dumps.append(dump)
        elif unfit:
            remedy = (
                "whyhang --ask-recorders PID asks for one, if the job has set "
                "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
            )
            cost = "the rank has written no dump of this run yet"
            collected.facts.append(_gap(rank, unfit, remedy, what="the recorder", cost=cost))
    return dumps


def asked(
    host: Host, job: HostJob, collected: Collected, patience: float = PATIENCE
) -> list[BundleFile]:
    """Ask the ranks that have a pipe for a dump, and take what they then write."""
    since = time.time()
    waiting: list[JobProcess] = []
    for rank in _numbered(host, job):
        stem = host.environ(rank.pid).get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
        if not stem:
            why = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE was not set at its start"
            remedy = "set it for the next run, with TORCH_FR_BUFFER_SIZE"
            collected.facts.append(_gap(rank, why, remedy))
            continue
        pipe = host.proc.path_for(rank.pid, f"{stem}{rank.rank}.pipe")
        if trouble := host.files.knock(pipe).trouble:
            collected.facts.append(_gap(rank, trouble))
        else:
            waiting.append(rank)
            done = f"asked rank {rank.rank} for a recorder dump through its pipe"
            collected.touched.append(done)
    dumps = list(_arrivals(host, waiting, job.world_size, since, patience))
    come = {dump.entry.pid for dump in dumps}
    why = f"it wrote none within {patience:g} s of being asked"
    collected.facts += [_gap(rank, why) for rank in waiting if rank.pid not in come]
    return dumps


def from_debug_server(address: str, limit: float, collected: Collected) -> list[BundleFile]:
    """Ask torch's debug server ("host:port") for the recorders of all ranks."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        collected.facts.append(_no_server(address, "that is no HOST:PORT"))
        return []
    asked_for = f"asked the debug server at {address} for the recorders of all ranks"
    collected.touched.append(asked_for)
    connection = http.client.HTTPConnection(host or "localhost", int(port), timeout=limit)
    try:
        connection.request("GET", "/fr_trace_json")
        answer = connection.getresponse()
        page = answer.read(MAX_BYTES).decode("utf-8", "replace")
        why = f"it answered {answer.status} {answer.reason[:160]}, no dumps"
    except (OSError, http.client.HTTPException) as error:
        page, why = "", f"it did not answer ({error})"
    finally:
        connection.close()
    dumps = [_dump(int(rank), html.unescape(text).encode()) for rank, text in _PAGE.findall(page)]
    collected.facts += [] if dumps else [_no_server(address, why)]
    return dumps


def _dump(
    rank: int | None, data: bytes, pid: int | None = None, modified_at: float | None = None
) -> BundleFile:
    entry = Entry(
        path="",
        kind="flight-recorder",
        pid=pid,
        rank=rank,
        trust=Trust.CONTENT if pid is None else Trust.ENVIRONMENT,
        role=Role.RANK.value,
        taken_at=modified_at,
    )
    return BundleFile(entry=entry, data=_without_secrets(data))


def _without_secrets(data: bytes) -> bytes:
    """Blank the secrets in the texts of a pickle, which says how long each is."""
    if not data.startswith(b"\x80") or redact_bytes(data) is data:
        return data
    clean, end = bytearray(data), 0
    with contextlib.suppress(ValueError, OverflowError):  # it ends in the middle of something
        stream = io.BytesIO(data)
        for code, argument, _ in pickletools.genops(stream):
            end = stream.tell()
            if code.name in _TEXTS and (blank := redact(str(argument))) != argument:
                size = len(str(argument).encode("utf-8", "surrogatepass"))
                clean[end - size : end] = blank.encode("utf-8", "replace")[:size].ljust(size, b"*")
    return bytes(clean[:end])


def _newest(host: Host, rank: JobProcess, world_size: int | None) -> tuple[BundleFile | None, str]:
    """Find the newest dump that fits; where there is none but others, say why they do not."""
    best: BundleFile | None = None
    unfit = ""
    started_at = host.proc.started_at(host.stats[rank.pid]) or 0.0
    for prefix in prefixes(host.environ(rank.pid)):
        path = f"{prefix}{rank.rank}"
        reached = host.proc.path_for(rank.pid, path)
        there = host.files.read(reached, most=0)
        modified = there.modified_at if there.is_file else None
        if modified is None or (best is not None and modified <= (best.entry.taken_at or 0)):
            continue
        if modified < started_at - _SLACK:
            unfit = unfit or f"{path} is older than the process, so it is of an earlier run"
            continue
        data = host.files.read(reached).data
        size = world_size_of(data) if data else None
        if size is not None and world_size not in {None, size}:
            unfit = unfit or f"{path} is of a job of {size} ranks, and this one has more or fewer"
        elif data:
            best = _dump(rank.rank, data, rank.pid, modified)
    return best, unfit


def _arrivals(
    host: Host, waiting: list[JobProcess], world_size: int | None, since: float, patience: float
) -> Iterator[BundleFile]:
    """Wait for dumps newer than the moment of asking, each until it grows no more."""
    deadline = time.monotonic() + patience
    sizes: dict[int, int] = {}
    left = list(waiting)
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        for rank in list(left):
            dump, _ = _newest(host, rank, world_size)
            if dump is None or (dump.entry.taken_at or 0) < since - _SLACK:
                continue
            if sizes.get(rank.pid) == len(dump.data):
                left.remove(rank)
                yield dump
            sizes[rank.pid] = len(dump.data)


def _gap(
    rank: JobProcess,
    why: str,
    remedy: str = "",
    *,
    what: str = "a recorder dump",
    cost: str = "how far it came is not known from its recorder",
) -> Gap:
    who = Who(rank=rank.rank, trust=Trust.ENVIRONMENT, pid=rank.pid)
    return Gap(what=f"{what} of rank {rank.rank}", why=why, cost=cost, remedy=remedy, who=who)


def _no_server(address: str, why: str) -> Gap:
    return Gap(
        what=f"torch's debug server at {address}",
        why=why,
        cost="the recorders were not read",
        remedy="Its port is the one given to start_debug_server (25999 unless chosen), "
        "on the host of rank 0",
    )


PROBE = Probe(name="the recorders of the ranks", limit=60.0, collect=collect)

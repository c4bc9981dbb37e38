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
from collections.abc import Iterable, Iterator

from whyhang.analyzer.facts import Gap, Role, Trust, Who
from whyhang.analyzer.redact import redact, redact_bytes
from whyhang.collectors.files.bundle import Entry
from whyhang.collectors.flight_recorder.places import prefixes
from whyhang.collectors.flight_recorder.reader import world_size_of
from whyhang.collectors.live.files import MAX_BYTES
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import BundleFile, Collected, Probe, Site
from whyhang.collectors.live.words import gap

PATIENCE = 5.0
"""Seconds that a job gets to write the dumps it was asked for; torch itself takes up to 15."""

_SLACK = 2.0  # seconds by which the clock of a shared file system may be behind
_TEXTS = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
_PAGE = re.compile(r"<h2>Rank (\d+):[^<]*</h2>\s*<pre>(.*?)</pre>", re.DOTALL)


def collect(site: Site, collected: Collected) -> None:
    """Take the dumps that the ranks have written, and new ones if told to; the last one counts."""
    site.wait_for_last()
    every = written(site, collected)
    if site.options.ask:
        every += asked(site, collected)
    if site.options.debug_server:
        every += from_debug_server(site, collected, site.options.debug_server)
    dumps = {dump.entry.rank or 0: dump for dump in every}
    collected.files += [dumps[rank] for rank in sorted(dumps)]


def _numbered(site: Site) -> list[JobProcess]:
    return [
        each for each in site.job.ranks if each.rank is not None and each.pid in site.host.stats
    ]


def written(site: Site, collected: Collected) -> list[BundleFile]:
    """Take the newest dump of each rank that its present process has written."""
    dumps = []
    for rank in _numbered(site):
        dump, unfit = _newest(site, rank)
        if dump is not None:
            dumps.append(dump)
        elif unfit:
            collected.facts.append(_gap("old-dump", rank, unfit))
    return dumps


def asked(site: Site, collected: Collected, patience: float = PATIENCE) -> list[BundleFile]:
    """Ask the ranks that have a pipe for a dump, and take what they then write."""
    since, waiting = time.time(), list[JobProcess]()
    for rank in _numbered(site):
        stem = site.host.environ(rank.pid).get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
        if not stem:
            collected.facts.append(_gap("no-pipe", rank))
            continue
        pipe = site.host.proc.path_for(rank.pid, f"{stem}{rank.rank}.pipe")
        if trouble := site.host.files.knock(pipe).trouble:
            collected.facts.append(_gap("no-dump", rank, trouble))
        else:
            waiting.append(rank)
            done = f"asked rank {rank.rank} for a recorder dump through its pipe"
            collected.touched.append(done)
    dumps = list(_arrivals(site, waiting, since, patience))
    come = {dump.entry.pid for dump in dumps}
    why = f"it wrote none within {patience:g} s of being asked"
    collected.facts += [_gap("no-dump", rank, why) for rank in waiting if rank.pid not in come]
    return dumps


def from_debug_server(site: Site, collected: Collected, address: str) -> list[BundleFile]:
    """Ask torch's debug server ("host:port") for the recorders of all ranks."""
    host, _, port = address.rpartition(":")
    page, why = "", "that is no HOST:PORT"
    if port.isdecimal():
        asked_for = f"asked the debug server at {address} for the recorders of all ranks"
        collected.touched.append(asked_for)
        limit = site.options.limit
        connection = http.client.HTTPConnection(host or "localhost", int(port), timeout=limit)
        try:
            connection.request("GET", "/fr_trace_json")
            answer = connection.getresponse()
            page = answer.read(MAX_BYTES).decode("utf-8", "replace")
            why = f"it answered {answer.status} {answer.reason[:160]}, no dumps"
        except (OSError, http.client.HTTPException) as error:
            why = f"it did not answer ({error})"
        finally:
            connection.close()
    found = _PAGE.findall(page)
    if not found:
        collected.facts.append(gap("debug-server", address=address, why=why))
    return [_dump(site, int(rank), html.unescape(text).encode()) for rank, text in found]


def _dump(
    site: Site, rank: int, data: bytes, pid: int | None = None, modified_at: float | None = None
) -> BundleFile:
    entry = Entry(
        path=f"rank{rank:0{site.job.rank_width()}}.flight_recorder",
        kind="flight-recorder",
        host=site.hostname if pid is not None else None,
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


def _newest(site: Site, rank: JobProcess) -> tuple[BundleFile | None, str]:
    """Find the newest dump that fits; where there is none but others, say why they do not."""
    best: BundleFile | None = None
    unfit, host = "", site.host
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
        if size is not None and site.job.world_size not in {None, size}:
            unfit = unfit or f"{path} is of a job of {size} ranks, and this one has more or fewer"
        elif data:
            best = _dump(site, rank.rank or 0, data, rank.pid, modified)
    return best, unfit


def _arrivals(
    site: Site, waiting: Iterable[JobProcess], since: float, patience: float
) -> Iterator[BundleFile]:
    """Wait for dumps newer than the moment of asking, each until it grows no more."""
    deadline = time.monotonic() + patience
    sizes: dict[int, int] = {}
    left = list(waiting)
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        for rank in list(left):
            dump, _ = _newest(site, rank)
            if dump is None or (dump.entry.taken_at or 0) < since - _SLACK:
                continue
            if sizes.get(rank.pid) == len(dump.data):
                left.remove(rank)
                yield dump
            sizes[rank.pid] = len(dump.data)


def _gap(name: str, rank: JobProcess, why: str = "") -> Gap:
    about = Who(rank=rank.rank, trust=Trust.ENVIRONMENT, pid=rank.pid)
    return gap(name, about, rank=rank.rank, why=why)


PROBE = Probe(name="the recorders of the ranks", limit=60.0, collect=collect)

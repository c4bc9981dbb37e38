"""NCCL's RAS of a live job: who listens, one question at the first look and one at the last.

A child process asks (``collectors/ras/client.py``), which is ended after ``LIMIT`` seconds,
whatever it is doing. Asking pauses nothing: a thread of NCCL's own answers.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from whyhang.analyzer.facts import Record
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.programs import run
from whyhang.collectors.live.sockets import Sockets
from whyhang.collectors.live.words import gap

PORT = 28028  # NCCL_RAS_CLIENT_PORT of src/ras/ras_internal.h, NCCL 2.24 and newer
LIMIT = 3.0
"""Seconds for one report."""

SPARE = 0.5
"""Seconds that the child has beyond them to tell how far it came."""

_CLIENT = Path(__file__).parents[2] / "ras" / "client.py"


class RasAnswer(Record):
    """One report as RAS sent it, or in ``trouble`` why there is none.

    ``form`` is "json" or "text"; ``pid`` is the process that answered, where that was seen.
    """

    data: bytes = b""
    form: str = ""
    taken_at: float = 0.0
    pid: int | None = None
    trouble: str = ""


class Endpoint(Record):
    """Where a process of the job listens. ``netns`` is a process in another network namespace."""

    host: str
    port: int
    netns: int | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def collect(site: Site, collected: Collected) -> None:
    """Ask at the first and at the last look."""
    place = _listening(site.host, site.job.ranks, site.snapshots[0].sockets)
    if place is None:
        return
    collected.touched.append(f"asked NCCL RAS at {place} for its report")
    pids = [member.pid for member in site.job.ranks]
    for number in range(min(2, site.options.looks)):
        if number:
            site.wait_for(site.options.looks - 1)
        answer = ask(place, pids)
        if answer.trouble:
            if not collected.files:
                collected.facts.append(gap("ras", place=place, why=answer.trouble))
            return
        name = f"ras.look{number}.{'json' if answer.form == 'json' else 'txt'}"
        file = site.file(name, "ras", answer.data, look=number, taken_at=answer.taken_at)
        collected.files.append(file)


def ask(place: Endpoint, pids: Iterable[int], limit: float = LIMIT) -> RasAnswer:
    """Ask once for the report of the job of ``pids``."""
    own = set(pids)
    task = {
        "host": place.host,
        "port": place.port,
        "netns": place.netns,
        "pids": sorted(own),
        "limit": limit,
    }
    arguments = (sys.executable, "-I", "-S", str(_CLIENT), json.dumps(task))
    outcome = run(*arguments, limit=limit + SPARE)
    line, _, data = outcome.output.partition(b"\n")  # of a report that is cut off, what there is
    try:
        answer = RasAnswer(data=data, **json.loads(line))
    except ValueError:
        late = f"no report came within {limit:g} s; a process may be silent"
        return RasAnswer(trouble=late if outcome.timed_out else outcome.errors or "it failed")
    if not answer.trouble and answer.pid is None:  # who answered was not seen: one of the job's?
        reported = {int(pid) for pid in re.findall(rb'"pid": (\d+)', answer.data)}
        if not reported or 2 * len(own & reported) < len(own):
            return RasAnswer(trouble="it cannot be seen whether what answers is of this job")
    return answer


def endpoint(environ: Mapping[str, str]) -> tuple[str, int]:
    """Return where a process with this environment would listen."""
    host, colon, port = environ.get("NCCL_RAS_ADDR", "").rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
        return "localhost", PORT
    return host.strip("[]") or "localhost", int(port)


def _listening(host: Host, ranks: Iterable[JobProcess], sockets: Sockets) -> Endpoint | None:
    """Find where a process of the job listens, by the sockets of its network namespace."""
    for pid in (member.pid for member in ranks):
        environ = host.environ(pid)
        name, port = endpoint(environ)
        if environ.get("NCCL_RAS_ENABLE") != "0" and sockets.listening(pid, port):
            netns = pid if host.proc.foreign(pid, "net") else None
            return Endpoint(host=name, port=port, netns=netns)
    return None


PROBE = Probe(name="NCCL RAS", limit=LIMIT + SPARE + 0.5, collect=collect)

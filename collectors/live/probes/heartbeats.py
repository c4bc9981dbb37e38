"""The steps that ranks note with ``whyhang.heartbeat``, at the first look and after the last.

A rank keeps its file open: it is found among the descriptors, wherever it lies, also in a
container. What it says of pid and host is put as they are called here.
"""

import time

from whyhang._heartbeat import ENDING, SIZE, line
from whyhang.collectors.heartbeat import Beat, parse
from whyhang.collectors.live.files import Files
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import BundleFile, Collected, Probe, Site
from whyhang.collectors.live.proc import Proc

MAX_RANKS = 4096


def collect(site: Site, collected: Collected) -> None:
    """Read all files twice; two steps of one rank that differ show that it goes on."""
    ranks = site.job.ranks[:MAX_RANKS]
    paths = {rank.pid: path for rank in ranks if (path := file_of(site.host.proc, rank.pid))}
    for look in (0, 1) if paths else ():
        if look:
            site.wait_for_last()
        collected.files.append(_file(site, ranks, paths, look))


def file_of(proc: Proc, pid: int) -> str | None:
    """Return where a process's heartbeat is read: through its own descriptor."""
    links = proc.open_files(pid).items()
    number = next((n for n, link in links if link.split(" (deleted)")[0].endswith(ENDING)), None)
    return None if number is None else f"{proc.root}/{pid}/fd/{number}"


def beat_at(files: Files, path: str) -> Beat | None:
    """Read one file; None where it says nothing."""
    return parse(files.read(path, most=SIZE).data.decode("utf-8", "replace"))


def _file(site: Site, ranks: list[JobProcess], paths: dict[int, str], look: int) -> BundleFile:
    beats = [
        (rank, beat)
        for rank in ranks
        if rank.pid in paths and (beat := beat_at(site.host.files, paths[rank.pid]))
    ]
    lines = [
        line(
            beat.rank if rank.rank is None else rank.rank,
            *(beat.world, rank.pid, beat.step, beat.beats, beat.longest, beat.time, site.hostname),
        )
        for rank, beat in beats
    ]
    name, data = f"heartbeats.look{look}.txt", b"".join(lines)
    return site.file(name, "heartbeats", data, taken_at=time.time())


PROBE = Probe(name="the heartbeats of the ranks", limit=2.0, collect=collect)

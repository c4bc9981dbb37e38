"""Time the diagnosis of a job's bundles: one of each of up to 2,000 hosts, or one of them all.

Run ``python benchmarks/many_hosts.py [HOSTS ...]`` (default 250, 500, 1,000 and 2,000 hosts of 8
ranks). The bundles are made of one that was captured (``host_job.py``). For each count a fresh
process reads the same files bare (unpacks them and parses their JSON, no more), another runs
``python -m whyhang TARGET --format json``. The bar is 2,000 hosts in 30 s and 1 GB on 2 cores,
growing linearly. On a machine that does other things, compare the seconds of CPU.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import host_job
import msgspec
import zstandard
from cost import Cost, timed
from host_job import PER_HOST, HostJob

BAR_HOSTS, BAR_SECONDS, BAR_MB = 2000, 30.0, 1024.0
WHYHANG = (sys.executable, "-m", "whyhang")
BARE = (sys.executable, str(Path(__file__).resolve()), "--bare")


def main() -> int:
    """Measure for each count on the command line; 1 if the bar or a culprit was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("hosts", nargs="*", type=int, default=[250, 500, 1000, 2000])
    parser.add_argument("--fault", choices=tuple(host_job.FAULTS), default="dataloader-blocked")
    parser.add_argument("--layout", choices=("archives", "folders", "merged"), default="archives")
    parser.add_argument("--bare", metavar="TARGET", help="read TARGET bare, in this process")
    options = parser.parse_args()
    if options.bare:
        print(sum(_bare(Path(options.bare))))
        return 0
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{options.fault}, {options.layout}; {cores} cores, load {load:.1f} before")
    print(
        f"{'hosts':>6} {'ranks':>7} {'MB':>6}   whyhang: s   s of CPU   peak MB   bare: s   ratio"
    )
    missed = [hosts for hosts in options.hosts if not _measure(hosts, options)]
    return min(len(missed), 1)


def _measure(hosts: int, options: argparse.Namespace) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="whyhang-hosts-"))
    try:
        job = HostJob(options.fault, hosts)
        target = host_job.write(job, folder, options.layout)
        bare, size, errors = timed((*BARE, str(target)))
        if not size:
            raise SystemExit(errors)
        ours, out, errors = timed((*WHYHANG, str(target), "--format", "json"), memory_every=0.25)
    finally:
        shutil.rmtree(folder)
    if not out:
        raise SystemExit(errors)
    outcome = _outcome(job, json.loads(out))
    bar = "" if hosts != BAR_HOSTS else "   bar kept" if _keeps(ours) else "   bar MISSED"
    print(
        f"{hosts:>6,} {hosts * PER_HOST:>7,} {int(size) / 1e6:>6,.0f} {ours.seconds:>12.1f} "
        f"{ours.cpu:>10.1f} {ours.megabytes:>9.0f} {bare.seconds:>9.1f} "
        f"{ours.cpu / bare.cpu:>7.1f}   {outcome}{bar}",
        flush=True,
    )
    return outcome.startswith("right") and "MISSED" not in bar


def _keeps(cost: Cost) -> bool:
    return cost.seconds <= BAR_SECONDS and cost.megabytes <= BAR_MB


def _outcome(job: HostJob, report: dict[str, object]) -> str:
    """Compare a report with the truth."""
    findings, ranks = report["findings"], report["ranks"]
    assert isinstance(findings, list)
    assert isinstance(ranks, list)
    causes = [finding for finding in findings if finding.get("caused_by") is None]
    named = {rank for finding in causes for rank in finding["culprit_ranks"] or ()}
    unseen = {row["rank"] for row in ranks if row["state"] in {"unreachable", "missing"}}
    dead = () if job.dead is None else range(job.dead * PER_HOST, (job.dead + 1) * PER_HOST)
    expected = set() if job.culprit is None else {job.culprit}
    if named == expected and unseen == set(dead) and len(ranks) == job.hosts * PER_HOST:
        return "right"
    return f"WRONG: {sorted(named)[:5]} named, {len(unseen)} unseen, {len(ranks)} ranks"


def _bare(target: Path) -> Iterator[int]:
    """Unpack and parse every file, in this process; yield their sizes."""
    for path in sorted(target.rglob("*")) if target.is_dir() else [target]:
        if not path.is_file():
            continue
        if not path.name.endswith(".tar.zst"):
            yield len(path.read_bytes())
            msgspec.json.decode(path.read_bytes())
            continue
        with (
            path.open("rb") as raw,
            zstandard.ZstdDecompressor().stream_reader(raw) as plain,
            tarfile.open(fileobj=io.BufferedReader(plain), mode="r|") as archive,
        ):
            for member in archive:
                stream = archive.extractfile(member)
                data = stream.read() if stream is not None else b"null"
                msgspec.json.decode(data)
                yield len(data)


if __name__ == "__main__":
    sys.exit(main())

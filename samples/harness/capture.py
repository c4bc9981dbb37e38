"""Captures the bundles of the samples anew.

    python -m whyhang.samples.harness.capture [NAME...]

Each job is started from a copy in a plain folder, and this interpreter's own folder is written
as ``/opt/venv``, so that the paths in a bundle are those of the job and not of the checkout.
A bundle replaces the old one only when all went well.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import zstandard

from whyhang.analyzer.errors import WhyhangError
from whyhang.samples.harness import scenario
from whyhang.samples.harness.scenario import ScenarioError

_NAMES = {
    sys.prefix: "/opt/venv",
    sys.base_prefix: "/usr",
    str(Path(__file__).resolve().parents[2]): "/opt/whyhang",
}
"""What stands in a bundle for the folders of this machine."""


def capture(sample: scenario.Sample, workplace: Path) -> None:
    """Start the sample from a copy in ``workplace``, collect it, and keep the bundle."""
    copy = workplace / sample.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(sample.folder, copy, ignore=shutil.ignore_patterns("*.zst", "sample.toml"))
    fresh = workplace / f"{sample.name}.tar.zst"
    with scenario.start(sample, scenario.command_line(sample, copy)) as job:
        job.wait_ready()
        command = ["-m", "whyhang", "collect", str(job.pid), "-o", str(fresh)]
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise ScenarioError(f"collecting {sample.name} failed", done.stderr.strip())
    name_paths_anew(fresh, _NAMES)
    shutil.move(fresh, sample.bundle)


def name_paths_anew(bundle: Path, names: Mapping[str, str]) -> None:
    """Write other paths for some in every text of a bundle.

    Raises ``ScenarioError`` where a binary member has one: its lengths would no longer be right.
    """
    packed = zstandard.ZstdDecompressor().stream_reader(bundle.read_bytes()).read()
    fresh = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(packed)) as old,
        tarfile.open(fileobj=fresh, mode="w") as new,
    ):
        for member in old:
            opened = old.extractfile(member)
            data = opened.read() if opened else b""
            for path, name in names.items():
                if path.encode() in data and b"\0" in data:
                    raise ScenarioError(f"{member.name} names {path}", "it cannot be renamed there")
                data = data.replace(path.encode(), name.encode())
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    bundle.write_bytes(zstandard.ZstdCompressor(level=19).compress(fresh.getvalue()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="samples to capture; all when none is named")
    parser.add_argument("--workplace", type=Path, default=Path("/tmp/training"))
    options = parser.parse_args()
    known = scenario.samples()
    failed = 0
    for name in options.names or list(known):
        if not options.names and scenario.missing(known[name]):
            print(f"{name}: left as it is: {scenario.missing(known[name])}")
            continue
        try:
            capture(known[name], options.workplace)
            print(f"{name}: {known[name].bundle.stat().st_size} bytes")
        except WhyhangError as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr)
    with contextlib.suppress(OSError):
        shutil.rmtree(options.workplace)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())

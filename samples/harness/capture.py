"""Captures the bundles of the samples anew.

    python -m whyhang.samples.harness.capture [NAME...]

Each job is started from a copy in a plain folder, so that the paths in its bundle are those
of the job and not of the checkout. A bundle replaces the old one only when all went well.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

from whyhang.analyzer.errors import WhyhangError
from whyhang.samples.harness import scenario


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
        raise scenario.ScenarioError(f"collecting {sample.name} failed", done.stderr.strip())
    shutil.move(fresh, sample.bundle)


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

"""Only collect: keep the evidence of a job that hangs now, to analyze it elsewhere.

The bundle is a folder or a .tar.zst of plain files: what each tool printed, and a manifest.
"""

import argparse
import shlex
import sys
from pathlib import Path

from whyhang.analyzer.commands import hosts, live, live_options, redaction
from whyhang.analyzer.errors import TargetError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the process, the bundle and how to take snapshots."""
    parser.add_argument("pid", nargs="*", help="any process of the job")
    parser.add_argument(
        "-o", "--output", required=True, metavar="BUNDLE", help="a folder or a .tar.zst"
    )
    redaction.add_arguments(parser)
    live_options.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Collect and write the bundle."""
    for text in options.pid:
        if not (text.isascii() and text.isdecimal()):
            raise TargetError(f"{text} is not a PID", "Give the number of a running process.")
    if not options.pid and live_options.given_hosts(options) is None:
        raise TargetError(
            "there is nothing to collect from",
            "Give the PID of any process of the job, or say on which hosts it is (--hosts, ...).",
        )
    pids = [int(text) for text in options.pid]
    if options.dry_run:
        sys.stdout.write(hosts.dry_run(pids, options))
        return 0
    bundle = Path(options.output)
    before = bundle.exists()
    try:
        live.collect(pids, options, options.output)
    except BaseException:
        if not before and bundle.exists():
            sys.stderr.write(f"whyhang: what was taken so far is in {options.output}\n")
        raise
    quoted = shlex.quote(options.output)
    sys.stderr.write(f"whyhang: wrote {quoted}; `whyhang {quoted}` reads it\n")
    return 0

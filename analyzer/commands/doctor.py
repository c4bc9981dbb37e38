"""Say what you can read on this machine, and how to get what is missing."""

import argparse
import sys

from whyhang.collectors.live.doctor import checks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing."""


def run(options: argparse.Namespace) -> int:
    """Print one line per check, with cost and remedy where it fails."""
    del options
    for check in checks():
        mark = "ok     " if check.ok else "missing"
        sys.stdout.write(f"{mark}  {check.what}: {check.result}\n")
        if not check.ok:
            for text in (check.cost, check.remedy):
                if text:
                    sys.stdout.write(f"         {text}\n")
    return 0

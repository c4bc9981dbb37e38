"""Look at a job that hangs now: collect, then read what was collected like any bundle."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyhang.analyzer.commands.progress import Progress
    from whyhang.analyzer.model import Fact

NATIVE = ("auto", "always", "never")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how to look at processes."""
    group = parser.add_argument_group("looking at processes")
    group.add_argument(
        "--looks",
        type=_count,
        default=2,
        metavar="N",
        help="take the stacks N times, to tell moving ranks from stuck ones (default 2)",
    )
    group.add_argument(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="seconds between two looks (default 1.0)",
    )
    group.add_argument(
        "--native",
        choices=NATIVE,
        default="auto",
        help="C and C++ frames too, which takes about a second a process; "
        "auto: where the Python stack leaves the wait open (default)",
    )
    group.add_argument(
        "--timeout",
        type=_seconds,
        default=15.0,
        metavar="S",
        help="limit of each single grab in seconds (default 15)",
    )


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError("must be between 1 and 100")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 3600:
        raise argparse.ArgumentTypeError("must be between 0 and 3600 seconds")
    return number


def facts(pids: list[int], options: argparse.Namespace, progress: Progress) -> list[Fact]:
    """Collect the jobs of these processes, keep the bundle if asked to, and read it."""
    raise NotImplementedError

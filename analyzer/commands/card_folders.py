"""The option that names folders of cards, and what is said of mistakes in cards."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.model import Gap


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where a command finds cards beside the usual places."""
    parser.add_argument(
        "--cards",
        action="append",
        default=[],
        metavar="DIR",
        type=_existing,
        help="use the cards in this folder, too; may be repeated (see `whyhang cards`)",
    )


def _existing(name: str) -> str:
    if not Path(name).exists():
        raise TargetError(
            f"there is no folder of cards at {name}",
            "Name the folder that holds the .toml files, or leave --cards out.",
        )
    return name


def complain(gaps: Iterable[Gap]) -> None:
    """Say on standard error what is wrong with cards."""
    for gap in gaps:
        sys.stderr.write(f"whyhang: {gap}\n")

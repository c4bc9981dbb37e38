"""Start workers on a cluster that exists already: a Slurm allocation or a Ray cluster."""

import os
from collections.abc import Mapping
from pathlib import Path

import whyhang
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Record

STARTING = 90.0
"""Seconds that a worker has to say that it is there."""

WORKERS = 16
MOST_ON_NODE = 8


class Search(Record):
    """What the workers look for in logs: as ``LogReader`` is told."""

    patterns: tuple[str, ...]
    owners: dict[str, str]


def on_each(nodes: int) -> int:
    """Return how many workers a node gets, of so many nodes."""
    return max(1, min(MOST_ON_NODE, WORKERS // max(1, nodes)))


def environ() -> Mapping[str, str]:
    """Return what makes a Python elsewhere find this very whyhang, where it has the same files."""
    root = str(Path(whyhang.__file__).parent.parent)
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": root if not before else f"{root}{os.pathsep}{before}"}


def split(on: str) -> tuple[str, str]:
    """Take ``--on`` apart: the kind of cluster, and which one. Raises ``TargetError``."""
    kind, _, which = on.partition(":")
    if kind not in {"ray", "slurm"}:
        raise TargetError(
            f"--on {on}: there is no such kind of cluster",
            "--on ray[:ADDRESS] or --on slurm[:JOB].",
        )
    return kind, which

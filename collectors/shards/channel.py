"""Workers on a cluster that exists already, and the way to each: questions there, answers back."""

import os
import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import whyhang
from whyhang import __version__
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Record
from whyhang.collectors.shards import wire

STARTING = 90.0
"""Seconds that a worker has to say that it is there."""

WORKERS = 16
MOST_ON_NODE = 8


class Search(Record):
    """What the workers look for in logs: as ``LogReader`` is told."""

    patterns: tuple[str, ...]
    owners: dict[str, str]


class ChannelError(Exception):
    """A worker does not answer any more, or not this."""


class Channel:
    """The way to one worker, on the node ``name``; a subclass for each kind of cluster."""

    def __init__(self, name: str) -> None:
        self.name = name

    def exchange(self, question: bytes, seconds: float | None) -> bytes:
        """Return the answer to a question within a time. Raises ``ChannelError``."""
        raise NotImplementedError

    def close(self) -> None:
        """End the worker."""
        raise NotImplementedError

    def ask(self, operation: str, *arguments: object, seconds: float | None = None) -> Any:
        """Return its answer. Raises ``ChannelError``."""
        data = self.exchange(pickle.dumps((operation, arguments), 5), seconds)
        try:
            good, answer = wire.facts_in(data)
        except (wire.AnswerError, TypeError, ValueError) as error:
            raise ChannelError(str(error)) from error
        if not good:
            raise ChannelError(str(answer))
        return answer


def begun(channels: Sequence[Channel], search: Search) -> dict[int, str]:
    """Tell all workers what they are to do; return by number why some did not start."""

    def begin(number: int) -> str:
        try:
            args = (number, search.patterns, search.owners)
            version = channels[number].ask("begin", *args, seconds=STARTING)
        except ChannelError as error:
            return str(error)
        if version != __version__:
            return f"whyhang {version} is installed there, here it is {__version__}"
        return ""

    with ThreadPoolExecutor(max(1, len(channels))) as pool:
        troubles = pool.map(begin, range(len(channels)))
        return {number: why for number, why in enumerate(troubles) if why}


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

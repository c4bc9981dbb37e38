"""Workers on a cluster that exists already, and the way to each: questions there, answers back.

An answer is a pickle, since facts share much (a stack is sent once for all ranks in it). It is
read by an unpickler that makes whyhang's own records and plain data, and calls nothing else:
what a node sends is not trusted further than a bundle is.
"""

import enum
import importlib
import io
import os
import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import whyhang
from whyhang import __version__
from whyhang.analyzer.facts import Record

STARTING = 90.0
"""Seconds that a worker has to say that it is there."""

WORKERS = 16
MOST_ON_NODE = 8

_NAMED = {
    ("builtins", name) for name in ("bytearray", "complex", "frozenset", "range", "set", "slice")
}
_NAMED |= {
    ("whyhang.collectors.flight_recorder.reader", "_again"),
    ("whyhang.collectors.files.remote", "folder_of"),
    ("functools", "partial"),
    ("msgspec._core", "rebuild"),
}


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
            good, answer = facts_in(data)
        except (TypeError, ValueError) as error:
            raise ChannelError(str(error)) from error
        if not good:
            raise ChannelError(str(answer))
        return answer


def facts_in(data: bytes) -> Any:
    """Read an answer. Raises ``ChannelError`` for one that holds anything but facts."""
    try:
        return _Facts(io.BytesIO(data)).load()
    except Exception as error:  # damage raises all kinds
        raise ChannelError(f"its answer cannot be read ({error})") from error


class _Facts(pickle.Unpickler):
    """Makes records, enumerations and plain data."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a pickle may name. Raises ``UnpicklingError`` for anything else."""
        if (module, name) == ("builtins", "getattr"):
            return _bound
        if (module, name) in _NAMED:
            return super().find_class(module, name)
        if module.startswith("whyhang."):
            named = getattr(importlib.import_module(module), name, None)
            if isinstance(named, type) and issubclass(named, Record | enum.Enum):
                return named
        raise pickle.UnpicklingError(f"{module}.{name} is no fact")


def _bound(owner: object, name: str) -> Any:
    """Return the method of a file by which it is opened again, or a member of an enumeration.

    Python 3.11.0 to 3.11.3 pickle a member of an enumeration by its name.
    """
    if name == "open" and isinstance(owner, Record):
        return getattr(owner, name)
    if isinstance(owner, enum.EnumMeta) and name in owner.__members__:
        return owner.__members__[name]
    raise pickle.UnpicklingError(f"{name} of {type(owner).__name__} is no fact")


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

"""What tools print when they fail, and what that means: the rows of ``tool_failures.toml``."""

import functools
from importlib.resources import files

import msgspec

from whyhang.analyzer.facts import Record
from whyhang.analyzer.toml import tomllib


class Failure(Record):
    """One way to fail: texts of which a tool prints one, why it failed, and what to do."""

    marks: tuple[str, ...]
    why: str
    remedy: str


@functools.cache
def _table() -> dict[str, tuple[Failure, ...]]:
    text = files("whyhang.collectors").joinpath("tool_failures.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, tuple[Failure, ...]])


def failure_of(tool: str, printed: str) -> Failure | None:
    """Return the first failure of a tool ("ssh", "py-spy", ...) that stands in what it printed."""
    rows = _table()[tool]
    return next((row for row in rows if any(mark in printed for mark in row.marks)), None)

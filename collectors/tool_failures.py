"""What tools print when they fail, and what that means: the rows of ``tool_failures.toml``."""

from whyhang.analyzer import toml
from whyhang.analyzer.facts import Record


class Failure(Record):
    """One way to fail: texts of which a tool prints one, why it failed, and what to do.

    ``silent``: what was asked has given no answer at all.
    """

    marks: tuple[str, ...]
    why: str
    remedy: str
    silent: bool = False


_TABLE = toml.read(__package__, "tool_failures.toml", dict[str, tuple[Failure, ...]])


def failure_of(tool: str, printed: str) -> Failure | None:
    """Return the first failure of a tool ("ssh", "py-spy", ...) that stands in what it printed."""
    rows = _TABLE[tool]
    return next((row for row in rows if any(mark in printed for mark in row.marks)), None)

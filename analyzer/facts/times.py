"""What the time of an event is worth: a time without a fraction is that of a whole second.

torchrun's table of failures, torch's own header of log lines and syslog tell no more than the
second. Such an event lies somewhere in it, and is not known to come before another of that second.
"""

from collections.abc import Callable
from typing import Any

from whyhang.analyzer.facts.base import R, replace
from whyhang.analyzer.facts.calls import Track
from whyhang.analyzer.facts.logs import Exit, LogLine
from whyhang.analyzer.facts.progress import LastLine, LogTail


def is_whole(time: float) -> bool:
    """Return whether a time, in seconds, stands for a whole second."""
    return time.is_integer()


def latest(time: float | None) -> float:
    """Return when at the latest an event happened, in seconds; one without a time sorts last."""
    if time is None:
        return float("inf")
    return time + 1.0 if is_whole(time) else time


def before(first: float, second: float) -> bool:
    """Return whether one event is known to come before another."""
    return first < second and latest(first) <= second


def shifted(time: float | None, by: float) -> float | None:
    """Set a time back by seconds; a whole second stays one."""
    if time is None:
        return None
    return time - (round(by) if is_whole(time) else by)


def with_times(fact: R, change: Callable[[float | None], float | None]) -> R:
    """Return a fact with its times changed, where it has some that are compared with others."""
    changed: dict[str, Any] = {}
    if isinstance(fact, LogLine | LastLine | Exit):
        changed = {"time": change(fact.time)}
    elif isinstance(fact, LogTail):
        changed = {"lines": tuple(replace(x, time=change(x.time)) for x in fact.lines)}
    elif isinstance(fact, Track):
        calls = (
            replace(c, created_at=change(c.created_at), given_up_at=change(c.given_up_at))
            for c in fact.calls
        )
        changed = {"calls": tuple(calls)}
    return replace(fact, **changed)

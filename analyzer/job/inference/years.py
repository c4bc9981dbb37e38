"""Logs that tell no year, or no day, beside logs that do: the times of one job are put there.

A time of the day alone (under 86,400 seconds) counts where its file tells one day in other lines
and its own times show no midnight, nor begin near it, as those do that count from the start.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import partial

from whyhang.analyzer.facts import NO_YEAR, Exit, Fact, LastLine, LogLine, LogTail, Track
from whyhang.analyzer.facts.times import with_times

DAY = 86_400.0  # seconds
LEAST = 600.0  # of a clock that is none since the start
MOST = 43_200.0  # between two times of one day


def in_one_year(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Give times without a year, or a day, that of other times of the job, if that is one."""
    years = {year for fact in facts for time in _times(fact) for year in _years(time)}
    if NO_YEAR in years and len(years) == 2:
        moved = partial(_in, next(iter(years - {NO_YEAR})))
        facts = [with_times(f, moved) if any(map(_has_none, _times(f))) else f for f in facts]
    return _on_days(facts)


def _on_days(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Give times of the day the day that their file tells; leave out those that have none."""
    alone: dict[str, list[float]] = defaultdict(list)
    days: dict[str, set[float]] = defaultdict(set)
    for fact in facts:
        for time in _times(fact):
            if time is not None and time < DAY and _file(fact):
                alone[_file(fact)].append(time)
            elif time is not None:
                days[_file(fact)].add(time // DAY * DAY)
    if not alone:
        return facts
    known = {
        file: days[file].pop()
        for file, times in alone.items()
        if len(days[file]) == 1 and min(times) > LEAST and max(times) - min(times) < MOST
    }

    def on_day(time: float | None, file: str) -> float | None:
        if time is None or time >= DAY:
            return time
        return known[file] + time if file in known else None

    return [
        with_times(fact, partial(on_day, file=_file(fact))) if _file(fact) in alone else fact
        for fact in facts
    ]


def _file(fact: Fact) -> str:
    return fact.source.file if isinstance(fact, LogLine | LastLine | Exit | LogTail) else ""


def _times(fact: Fact) -> Iterable[float | None]:
    if isinstance(fact, LogLine | LastLine | Exit):
        return (fact.time,)
    if isinstance(fact, LogTail):
        return [line.time for line in fact.lines]
    if isinstance(fact, Track):
        return [time for call in fact.calls for time in (call.created_at, call.given_up_at)]
    return ()


def _years(time: float | None) -> Iterable[int]:
    return () if time is None or time < DAY else (datetime.fromtimestamp(time, timezone.utc).year,)


def _has_none(time: float | None) -> bool:
    return NO_YEAR in _years(time)


def _in(year: int, time: float | None) -> float | None:
    if time is None or not _has_none(time):
        return time
    with contextlib.suppress(ValueError):  # the 29th of February
        return datetime.fromtimestamp(time, timezone.utc).replace(year=year).timestamp()
    return time

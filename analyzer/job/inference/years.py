"""Logs that tell no year beside logs that do: the times of one job are put into one year."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from whyhang.analyzer.facts import (
    NO_YEAR,
    Call,
    Exit,
    Fact,
    LastLine,
    LogLine,
    LogTail,
    Track,
    replace,
)


def in_one_year(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Give times without a year the one that other times of the job have, if that is one."""
    years = {year for fact in facts for time in _times(fact) for year in _years(time)}
    if NO_YEAR not in years or len(years) != 2:
        return facts
    year = next(iter(years - {NO_YEAR}))
    return [_moved(fact, year) if any(map(_has_none, _times(fact))) else fact for fact in facts]


def _times(fact: Fact) -> Iterable[float | None]:
    if isinstance(fact, LogLine | LastLine | Exit):
        return (fact.time,)
    if isinstance(fact, LogTail):
        return [line.time for line in fact.lines]
    if isinstance(fact, Track):
        return [time for call in fact.calls for time in (call.created_at, call.given_up_at)]
    return ()


def _years(time: float | None) -> Iterable[int]:
    return () if time is None else (datetime.fromtimestamp(time, timezone.utc).year,)


def _has_none(time: float | None) -> bool:
    return NO_YEAR in _years(time)


def _moved(fact: Fact, year: int) -> Fact:
    if isinstance(fact, LogLine | LastLine | Exit):
        return replace(fact, time=_in(year, fact.time))
    if isinstance(fact, LogTail):
        return replace(fact, lines=tuple(replace(x, time=_in(year, x.time)) for x in fact.lines))
    if isinstance(fact, Track):
        return replace(fact, calls=tuple(_moved_call(call, year) for call in fact.calls))
    return fact


def _moved_call(call: Call, year: int) -> Call:
    made, given_up = _in(year, call.created_at), _in(year, call.given_up_at)
    return replace(call, created_at=made, given_up_at=given_up)


def _in(year: int, time: float | None) -> float | None:
    if time is None or not _has_none(time):
        return time
    moment = datetime.fromtimestamp(time, timezone.utc)
    try:
        return moment.replace(year=year).timestamp()
    except ValueError:  # the 29th of February
        return time

"""The time a log line says, as far as it can be compared with other lines.

Logs write local time without a zone, often without a year. The numbers given here order lines
of one job: they are seconds since the epoch with local time taken for UTC where no zone is
told. The fraction behind a torch C++ header (nine digits) is the monotonic clock of the host
and not of that second, so it is dropped (formats of torch 2.4 and newer).
"""

import calendar
import re
from datetime import datetime

from whyhang.analyzer.facts import NO_YEAR, Record
from whyhang.collectors import tables

REACH = 120  # a time stands in the first part of a line

_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


class _Times(Record):
    date: re.Pattern[str]
    clock: re.Pattern[str]
    year: re.Pattern[str]
    epoch: re.Pattern[str]


_TIMES = tables.patterns(__package__, "clock.toml", _Times)

_SECONDS = {"alone": 3600, "minute": 60, "second": 1}
_MONOTONIC = 9  # digits of the fraction of torch's own header


def time_of(text: str, year: int | None) -> float | None:
    """Read the first time in a line; ``year`` is used where the line tells none."""
    if not _TIMES.clock.search(text, 0, REACH):  # most lines, at a tenth of the cost
        return None
    for match in _TIMES.date.finditer(text, 0, REACH):
        time = _time(match, year)
        if time is not None:
            return time
    return None


def time_in_object(text: str, year: int | None) -> float | None:
    """Read the time in an object of JSON: a date, or seconds (or less) since the epoch."""
    if match := _TIMES.epoch.search(text):
        return float(f"{match['seconds']}.{match['fraction'] or 0}")
    return time_of(text, year)


def year_of(text: str) -> int | None:
    """Return the year that some line of a text tells."""
    if not _TIMES.year.search(text):
        return None
    for match in _TIMES.date.finditer(text):
        digits = match["year"] or match["year2"] or match["year4"]
        if digits:
            return int(digits) if len(digits) > 2 else 2000 + int(digits)
    return None


def _time(match: re.Match[str], year: int | None) -> float | None:
    if match["alone"]:  # of a day that another line may tell
        return float(sum(n * int(match[k]) for k, n in _SECONDS.items()))
    suffix = next((s for s in ("", "2", "3", "5") if match["month" + s]), "4")
    if suffix == "4":
        month, odd = divmod(_MONTHS.find(match["name"]), 3)
        if odd or month < 0:
            return None
        month += 1
    else:
        month = int(match["month" + suffix])
    own_year = year_of(match[0])
    day = int(match["day" + suffix])
    hour, minute, second = (int(part) for part in match["clock" + suffix].split(":"))
    try:
        moment = datetime(own_year or year or NO_YEAR, month, day, hour, minute, second)
    except ValueError:
        return None
    seconds = calendar.timegm(moment.timetuple())
    return float(seconds) + _fraction(match) - _offset(match["zone"])


def _fraction(match: re.Match[str]) -> float:
    digits = match["fraction"] or match["fraction3"] or ""
    if not digits or (match["fraction3"] and len(digits) >= _MONOTONIC):
        return 0.0
    return float(f"0.{digits}")


def _offset(zone: str | None) -> int:
    if not zone or zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)

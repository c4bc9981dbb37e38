"""Clocks of hosts, compared by lines that ranks print at one moment, and set to one time.

Ranks that train together end each step together, whatever their clocks say. Where the numbered
steps of two ranks lie a constant time apart, line by line, that is the difference of their clocks,
and times of one host can be compared with those of another. What a rank only began later drifts, or
has no steps: nothing is concluded then.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from whyhang.analyzer.facts import (
    ClockOffset,
    Exit,
    LogLine,
    LogTail,
    Statement,
    Track,
    Who,
    replace,
)
from whyhang.analyzer.facts.times import shifted, with_times
from whyhang.analyzer.job.records import Job, with_lines
from whyhang.analyzer.rank_state.from_logs.last_phase import shared_steps
from whyhang.analyzer.rank_state.from_logs.log_ends import tails_of_ranks

LEAST = 4  # steps that two ranks have in common
STEADY = 1.0  # seconds by which these may lie apart, more or less than the clocks
WORTH = 3.0  # seconds of a difference that is put right
MOST = 512  # ranks that are compared

Timed = TypeVar("Timed", Track, Statement, Exit, LogLine)


def on_one_clock(job: Job) -> Job:
    """Set the times of all ranks to the clock of the first, where all their clocks are known."""
    tails = tails_of_ranks(job)
    if not 1 < len(tails) <= MOST or len({_place(tail) for tail in tails.values()}) < 2:
        return job
    ahead = _ahead(tails)
    if ahead is None:
        return job
    offsets = {place: by for place, by in ahead.items() if abs(by) >= WORTH}
    by_rank = {rank: ahead[_place(tail)] for rank, tail in tails.items()}
    clocks: dict[str, set[float]] = defaultdict(set)  # by file
    for tail in tails.values():
        clocks[tail.source.file].add(ahead[_place(tail)])
    by_file = {file: own.pop() for file, own in clocks.items() if len(own) == 1}
    of_places = {_place(tail): tail for tail in tails.values()}
    known = (
        ClockOffset(who=Who(host=place), source=tail.source, seconds=ahead[place])
        for place, tail in of_places.items()
        if place in offsets
    )

    def moved(fact: Timed) -> Timed:
        by = by_rank.get(-1 if fact.who.rank is None else fact.who.rank)
        by = by_file.get(fact.source.file, 0.0) if by is None else by
        return with_times(fact, partial(shifted, by=by)) if by else fact

    job = replace(
        job,
        tracks=tuple(replace(moved(track), one_clock=True) for track in job.tracks),
        statements=(*map(moved, job.statements), *known),
    )
    if not offsets:
        return job
    job = replace(job, exits=tuple(map(moved, job.exits)))
    return with_lines(job, tuple(map(moved, job.lines)))


def _place(tail: LogTail) -> str:
    """Return the host of a rank, else the folder of its log, else the file."""
    file = tail.source.file
    return tail.who.host or file.rpartition("/")[0] or file


def _ahead(tails: Mapping[int, LogTail]) -> dict[str, float] | None:
    """Return by how many seconds the clock of each place is ahead; None if one is not known."""
    steps = shared_steps(tails)
    first = min(tails)
    by_place: dict[str, list[float]] = defaultdict(list)
    for rank, own in steps.items():
        differences = [own[key] - steps[first][key] for key in own.keys() & steps[first].keys()]
        if len(differences) < LEAST:
            return None
        middle = statistics.median(differences)
        if statistics.median(abs(each - middle) for each in differences) > STEADY:
            return None
        by_place[_place(tails[rank])].append(middle)
    if any(max(own) - min(own) > 2 * STEADY for own in by_place.values()):
        return None
    return {place: statistics.median(own) for place, own in by_place.items()}

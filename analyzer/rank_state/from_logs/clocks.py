"""Clocks of hosts, compared by lines that ranks print at one moment, and set to one time.

Ranks that train together end each step together, whatever their clocks say. Where the numbered
steps of two ranks lie a constant time apart, line by line, that is the difference of their clocks,
and times of one host can be compared with those of another. What a rank only began later drifts, or
has no steps: nothing is concluded then.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping

from whyhang.analyzer.facts import (
    Call,
    ClockOffset,
    LastLine,
    LogTail,
    Source,
    Statement,
    Track,
    Who,
    replace,
)
from whyhang.analyzer.facts.times import shifted
from whyhang.analyzer.job.records import Job, with_lines
from whyhang.analyzer.rank_state.from_logs.last_phase import shared_steps
from whyhang.analyzer.rank_state.from_logs.log_ends import tails_of_ranks

LEAST = 4  # steps that two ranks have in common
STEADY = 1.0  # seconds by which these may lie apart, more or less than the clocks
WORTH = 3.0  # seconds of a difference that is put right
MOST = 512  # ranks that are compared


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
    by_file = _by_file(tails, ahead)
    known = tuple(
        ClockOffset(who=Who(host=_place(tail)), source=tail.source, seconds=ahead[_place(tail)])
        for tail in {_place(tail): tail for tail in tails.values()}.values()
        if _place(tail) in offsets
    )

    def shift(who: Who, source: Source) -> float:
        by = by_rank.get(who.rank) if who.rank is not None else None
        return by_file.get(source.file, 0.0) if by is None else by

    job = replace(
        job,
        tracks=tuple(_track(track, shift(track.who, track.source)) for track in job.tracks),
        statements=(*(_statement(s, shift(s.who, s.source)) for s in job.statements), *known),
    )
    if not offsets:
        return job
    exits = [replace(row, time=shifted(row.time, shift(row.who, row.source))) for row in job.exits]
    lines = [replace(x, time=shifted(x.time, shift(x.who, x.source))) for x in job.lines]
    return with_lines(replace(job, exits=tuple(exits)), tuple(lines))


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


def _by_file(tails: Mapping[int, LogTail], ahead: Mapping[str, float]) -> dict[str, float]:
    """Return the difference of files all of whose ranks have one clock."""
    clocks: dict[str, set[float]] = defaultdict(set)
    for tail in tails.values():
        clocks[tail.source.file].add(ahead[_place(tail)])
    return {file: own.pop() for file, own in clocks.items() if len(own) == 1}


def _track(track: Track, by: float) -> Track:
    calls = tuple(_call(call, by) for call in track.calls) if by else track.calls
    return replace(track, calls=calls, one_clock=True)


def _call(call: Call, by: float) -> Call:
    made, given_up = shifted(call.created_at, by), shifted(call.given_up_at, by)
    return replace(call, created_at=made, given_up_at=given_up)


def _statement(fact: Statement, by: float) -> Statement:
    if isinstance(fact, LastLine):
        return replace(fact, time=shifted(fact.time, by))
    if isinstance(fact, LogTail):
        lines = tuple(replace(line, time=shifted(line.time, by)) for line in fact.lines)
        return replace(fact, lines=lines)
    return fact

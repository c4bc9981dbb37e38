"""Which ranks waited in vain until a limit, and which others are known not to have waited.

A watchdog, a store or gloo says so and the process ends; a rank whose output is lost shows it
by the abort alone. Silence is not absence: who printed nothing may have been ended before its
limit, or its lines were not kept. Only where almost all gave up are the few others elsewhere.
"""

import signal
from collections.abc import Collection, Mapping, Sequence

from whyhang.analyzer.facts import LastLine, LogLine, LogTail
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.rank_state.from_logs.ends import BROUGHT_DOWN, End, loses_peer, waits_in_vain

BEHIND = 3
"""Lines that follow where a rank gives up, before it ends itself."""

MEANWHILE = 0.1
"""Share of their wait behind which words of a rank are no last words of the step before."""

BROKEN = 12
"""Characters: a last line with fewer, and no line break behind it, is the beginning of one."""

TOGETHER = 15.0
"""Seconds within which ranks give up that wait for the same."""

LATE = 60.0
"""Seconds: who is ended so long after others gave up, and has not given up, came later than they.

Ranks that wait for the same come within seconds of each other, and wait equally long.
"""

FEW = 4
"""Times as many ranks must have given up as did not, for these to be known by that."""


def gave_up(job: Job) -> frozenset[int]:
    """Return the ranks that waited until a limit, by their own words or by an abort.

    An abort alone is a watchdog's where some rank says that it waited, or nothing says otherwise:
    no rank failed in another way or lost a peer.
    """
    waited = {line.who.rank for line in job.lines if waits_in_vain(line)}
    aborted = {row.who.rank for row in job.exits if row.signal == signal.SIGABRT}
    failed = any(row.exitcode or row.signal not in BROUGHT_DOWN | {None} for row in job.exits)
    if waited or not (failed or lost_peer(job)):
        waited |= aborted
    return frozenset(rank for rank in waited if rank is not None)


def lost_peer(job: Job) -> frozenset[int]:
    """Return the ranks that noticed the end of another one."""
    speaking = (line.who.rank for line in job.lines if loses_peer(line))
    return frozenset(rank for rank in speaking if rank is not None)


def last_lines(job: Job) -> dict[int, LastLine]:
    """Return the last line of each rank whose log is at hand to its end.

    A file that breaks off in a line, as others do not, was cut: what came then is not known.
    """
    lines = job.of(LastLine)
    cut = {line.source.file for line in lines if line.cut}
    if cut.issuperset(line.source.file for line in lines if line.ends_log):
        cut = set()  # pasted, as text mostly is
    return {
        line.who.rank: line
        for line in lines
        if line.who.rank is not None and line.source.file not in cut
    }


def is_cut_while_giving_up(job: Job) -> bool:
    """Return whether a log breaks off where ranks give up: others may have followed.

    Just there, or, where its last line is torn, anywhere behind: the same minute fills pages. Not
    where it goes on for longer than ranks take that wait for the same.
    """
    first: dict[tuple[str, int | None], LogLine] = {}
    for line in job.lines:
        if waits_in_vain(line) and line.source.line is not None:
            first.setdefault((line.source.file, line.who.rank), line)
    ends = {line.source.file: line for line in job.of(LastLine) if line.cut}
    return any(
        (end.source.line or 0) < (line.source.line or 0) + BEHIND or len(end.text.strip()) < BROKEN
        for (file, _), line in first.items()
        if (end := ends.get(file)) is not None and not _goes_on(job, file, [*first.values()])
    )


def _goes_on(job: Job, file: str, given_up: Sequence[LogLine]) -> bool:
    """Return whether a log has lines long behind the first words of all who gave up in it."""
    times = [line.time for line in given_up if line.source.file == file]
    known = [time for time in times if time is not None]
    last = max((x.time or 0.0 for x in job.lines if x.source.file == file), default=0.0)
    return len(known) == len(times) > 0 and last > max(known) + TOGETHER


def few_beside(others: Collection[int], waited: Collection[int]) -> bool:
    """Return whether these are so few beside those who waited that they were elsewhere."""
    return bool(others) and (len(others) == 1 <= len(waited) or len(others) * FEW <= len(waited))


def silent_beside(job: Job, *, own_logs: bool) -> dict[int, LastLine]:
    """Return the last lines of the few ranks that speak in the logs, and not of waiting.

    ``own_logs``: only ranks with a log of their own count, whose silence is no cut in an excerpt.
    """
    waited = gave_up(job)
    if not waited or is_cut_while_giving_up(job):
        return {}
    last = {rank: line for rank, line in last_lines(job).items() if line.ends_log or not own_logs}
    at_work = spoke_meanwhile(job)
    lost = lost_peer(job) - at_work.keys()
    silent = {rank: at_work.get(rank, last[rank]) for rank in last.keys() - waited - lost}
    few = few_beside(silent, waited)
    if not few and 2 * len(silent) <= len(waited | lost):
        # more of them may be elsewhere where each ends with words that no other rank has
        tails = [tail for tail in job.of(LogTail) if tail.who.rank is not None]
        own = {tail.who.rank: tail.lines[-1].template for tail in tails if tail.who.rank in silent}
        usual = {x.template for tail in tails if tail.who.rank not in silent for x in tail.lines}
        few = own.keys() == silent.keys() and bool(usual) and usual.isdisjoint(own.values())
    return silent if few and len(waited | last.keys()) >= (job.world_size or 0) else {}


def spoke_meanwhile(job: Job) -> dict[int, LastLine]:
    """Return the ranks that were at work while the others waited, with what they printed last.

    Their last own words stand well behind the time at which the others began to wait, none of whom
    says anything meanwhile; that they lose a peer when these give up is an echo.
    """
    tracks = [track for track in job.tracks if track.kind == "watchdog" and track.one_clock]
    calls = [call for track in tracks for call in track.calls]
    made = [call.created_at for call in calls if call.created_at is not None]
    given_up = [call.given_up_at for call in calls if call.given_up_at is not None]
    waited = gave_up(job)
    if not made or not given_up or min(given_up) <= max(made):
        return {}
    begun = max(made) + MEANWHILE * (min(given_up) - max(made))
    spoken = {}
    for tail in job.of(LogTail):
        last, who, source = tail.lines[-1], tail.who, tail.source
        if who.rank is not None and begun < (last.time or 0) < min(given_up):
            line = LastLine(text=last.text, ends_log=True, time=last.time, who=who, source=source)
            spoken[who.rank] = line
    return {} if spoken.keys() & waited else spoken


def at_work_until_ended(job: Job, ends: Mapping[int, End]) -> frozenset[int]:
    """Return the ranks that a launcher ended while almost all others had given up waiting.

    A watchdog that gives up aborts its process; the launcher then ends the others (SIGTERM, and
    SIGKILL where that does not help). One watchdog is enough for that, so where several were ended
    at once, they may not have come to their limit. Where aborts alone tell of a watchdog, it has to
    be those of all others.
    """
    waited = gave_up(job)
    by_launcher = {signal.SIGTERM, signal.SIGKILL}
    ended = {rank for rank, end in ends.items() if end.signal in by_launcher and not end.own}
    ended -= waited
    ended -= lost_peer(job)
    in_vain = [line for line in job.lines if waits_in_vain(line)]
    everyone = ended | waited
    if not in_vain and everyone != set(range(len(everyone))):
        return frozenset()
    gave = [line.time for line in in_vain if line.time is not None]
    times = [time for rank in ended if (time := ends[rank].time) is not None]
    late = len(ended) <= len(waited) and gave and times and min(times) - max(gave) >= LATE
    return frozenset(ended) if late or few_beside(ended, waited) else frozenset()

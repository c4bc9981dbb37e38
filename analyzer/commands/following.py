"""Follow a job: look now and then, ask why it does not go on when it does not, say what happens."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Literal

from whyhang.analyzer import interrupts
from whyhang.analyzer.errors import WhyhangError
from whyhang.analyzer.facts import Record
from whyhang.analyzer.findings.verdict import tells_of_no_job
from whyhang.analyzer.report import Report
from whyhang.collectors.watch import course as courses
from whyhang.collectors.watch.course import Answer, Course, Look, Looks, SilenceLimits

PARTS = 4  # looks in the time that a job may be silent, at least

Diagnose = Callable[[tuple[int, ...], tuple[str, ...]], Report]
"""Says of processes and paths why they hang."""


class Event(Record):
    """Something that happened to a job that is followed.

    ``report`` is there where it was asked about. Of these, only "hang" wants somebody's attention:
    "asked" means that it moves, or is given more time.
    """

    kind: Literal["asked", "hang", "moved", "restarted", "over", "trouble"]
    says: str
    report: Report | None = None


def answer_of(report: Report, busy: frozenset[str] = frozenset()) -> Answer:
    """Return what a report means for a job that gave no sign of progress.

    ``busy`` are the ranks that were seen to do something all the time, as whoever evaluates does,
    and whoever tries again for ever.
    """
    if report.verdict in {"healthy", "slow"}:
        return "moves"
    if report.verdict == "inconclusive":
        return "nothing" if tells_of_no_job(report) else "open"
    culprits = set(report.findings[0].culprit_ranks or ()) if report.findings else set()
    at_work = [
        row.state == "running" or f"rank {row.rank}" in busy or f"pid {row.pid}" in busy
        for row in report.ranks
        if row.rank in culprits
    ]
    return "works" if at_work and all(at_work) else "hangs"


def follow(
    looks: Looks,
    diagnose: Diagnose,
    limits: SilenceLimits,
    *,
    every: float,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Event]:
    """Yield what happens, until the job is over. ``every`` is in seconds between two looks."""
    pause = min(every, limits.stalled_for / PARTS)
    known = courses.begin(looks.look())
    empty = False  # the last diagnosis found nothing at all, which is said once
    while True:
        interrupts.check()  # Ctrl-C may have come during a look
        sleep(pause)
        step = courses.after(known, looks.look(), limits)
        known = step.course
        if step.move == "over":
            report = None
            with contextlib.suppress(WhyhangError):  # its logs may say more
                report = diagnose((), looks.paths) if looks.paths and not looks.pids else None
            yield Event(kind="over", says=step.why, report=report)
            return
        if step.move == "moved":
            yield Event(kind="moved", says="it goes on again")
        elif step.move == "restarted":
            yield Event(kind="restarted", says=step.why)
        elif step.move == "ask":
            known, event = _asked(known, step.why, looks, diagnose)
            before, empty = empty, event.report is not None and tells_of_no_job(event.report)
            if event.kind != "asked" or not (before and empty):
                yield event


def _asked(known: Course, why: str, looks: Looks, diagnose: Diagnose) -> tuple[Course, Event]:
    sure = bool(known.look.alarms) or bool(known.asked)
    try:
        report = diagnose(looks.pids, looks.paths)
    except WhyhangError as error:  # it may have ended meanwhile, which the next look shows
        course, _ = courses.answered(known, "moves", at=known.look.at)
        return course, Event(kind="trouble", says=f"{why}, but {error.message}")
    fresh: Look = looks.look()  # the diagnosis itself stirs the processes, and takes a while
    changed = {key for key, number in fresh.signs.items() if known.look.signs.get(key) != number}
    answer: Answer = "moves" if changed and not sure else answer_of(report, known.busy)
    course, hangs = courses.answered(known, answer, at=fresh.at, sure=sure)
    kind: Literal["hang", "asked"] = "hang" if hangs else "asked"
    return courses.caught_up(course, fresh), Event(kind=kind, says=why, report=report)

"""Lines of a kernel that are of another time, or of another job, than the one looked at.

A kernel's log goes back to when its host started, and on after the job. What it tells of processes
and GPUs hours before the job's words, or behind its end, did not end that job. Nor does the cgroup
of another job of Slurm's. Hosts and containers tell local time or UTC, which lie up to 14 hours
apart.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from whyhang.analyzer.facts import (
    NO_YEAR,
    Exit,
    Fact,
    Gap,
    LastLine,
    LogLine,
    LogTail,
    Outlook,
    Process,
    Source,
)
from whyhang.analyzer.job.slurm_numbers import number_told

APART = 15 * 3600.0
"""Seconds by which no two clocks differ, whatever zones they tell."""

_ABSOLUTE = datetime(NO_YEAR + 1, 1, 1, tzinfo=timezone.utc).timestamp()
"""Times before this one have no year, or no day."""

_OF_PROCESS_OR_GPU = re.compile(
    r"NVRM: Xid |[Kk]ill(?:ed)? process \d|oom-kill:|oom_reaper: "
    r"|(?:^|\] |: )\S+\[\d+\]: segfault at"
)
OF_KERNEL = re.compile(rf"{_OF_PROCESS_OR_GPU.pattern}|NVRM: | invoked oom-killer: ")
"""Lines of a kernel about a process or a GPU, which may be those of another program."""
_INVOKED = re.compile(r" invoked oom-killer: ")
_CGROUP = re.compile(r"\bjob_(\d{1,10})(?=[/,]|$)")
_PID = re.compile(r"\bpid=(\d+)|\bprocess (\d+)")


def of_the_jobs_time(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Leave out what a kernel says long before the job, or long after its end, and say so."""
    logs = _kernel_logs(facts)
    began, ended = _span(fact for fact in facts if not _of_kernel(fact, logs))

    events = [
        fact
        for fact in facts
        if isinstance(fact, LogLine | Exit)
        and _of_kernel(fact, logs)
        and fact.time is not None
        and fact.time >= _ABSOLUTE
    ]
    before = [f for f in events if began is not None and (f.time or 0.0) < began - APART]
    after = [f for f in events if ended is not None and (f.time or 0.0) > ended + APART]
    if not before and not after:
        return facts
    kept = _without(facts, [*before, *after])
    return [*kept, *_gaps(before, "before the job"), *_gaps(after, "after the job")]


def _gaps(left_out: Iterable[LogLine | Exit], when: str) -> list[Gap]:
    by_file: dict[str, Source] = {}
    for fact in left_out:
        if _OF_PROCESS_OR_GPU.search(_text(fact)):
            by_file.setdefault(fact.source.file, fact.source)
    return [
        Gap(
            what=f"reading what {file} says of processes and GPUs",
            why=f"that was many hours {when}",
            cost="nothing is concluded from it",
            remedy="Give what the kernel has said in the time of the job",
            source=source,
        )
        for file, source in by_file.items()
    ]


def of_this_job(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Leave out what a kernel says of a cgroup that Slurm made for another job."""
    printed = [fact for fact in facts if isinstance(fact, LogLine | Exit | LastLine)]
    own = number_told(
        (fact.environ for fact in facts if isinstance(fact, Process)),
        (fact.quote if isinstance(fact, Exit) else fact.text for fact in printed),
        (fact.source.file for fact in printed),
    )
    if own is None:
        return facts
    killed: dict[str, set[str]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, LogLine) and any(n != own for n in _CGROUP.findall(fact.text)):
            killed[fact.source.file].update(_pids(fact.text))
    others = [
        fact
        for fact in facts
        if isinstance(fact, LogLine | Exit)
        and not killed[fact.source.file].isdisjoint(_pids(_text(fact)))
    ]
    if not others:
        return facts
    heads = {(fact.source.file, (fact.source.line or 0) - 1) for fact in others}
    asked = [
        fact
        for fact in facts
        if isinstance(fact, LogLine)
        and _INVOKED.search(fact.text)
        and (fact.source.file, fact.source.line) in heads
    ]
    return _without(facts, [*others, *asked])


def _without(facts: Sequence[Fact], others: Iterable[Fact]) -> list[Fact]:
    ids = {id(fact) for fact in others}
    return [fact for fact in facts if id(fact) not in ids]


def _kernel_logs(facts: Iterable[Fact]) -> set[str]:
    """Return the files that a kernel has written: no rank speaks there."""
    spoken: set[str] = set()
    kernel: set[str] = set()
    for fact in facts:
        if isinstance(fact, LogLine | Exit | LastLine | LogTail) and fact.who.rank is not None:
            spoken.add(fact.source.file)
        elif isinstance(fact, LogLine) and OF_KERNEL.search(fact.text):
            kernel.add(fact.source.file)
    return kernel - spoken


def _of_kernel(fact: Fact, logs: set[str]) -> bool:
    if not isinstance(fact, LogLine | Exit):
        return isinstance(fact, LastLine | LogTail) and fact.source.file in logs
    return fact.source.file in logs or OF_KERNEL.search(_text(fact)) is not None


def _span(facts: Iterable[Fact]) -> tuple[float | None, float | None]:
    """Return before when nothing of the job is, and after when; None where that is not known.

    The end of a log shows where it begins only where that is all of it, or the job was at work.
    """
    known: list[float] = []
    begins = ends = False
    for fact in facts:
        if isinstance(fact, LogTail):
            times = [line.time for line in fact.lines]
            at_work = fact.outlook in {Outlook.STEPS, Outlook.ENDED}
            begins = begins or ((fact.whole or at_work) and any(times))
            ends = ends or fact.outlook is Outlook.ENDED
        elif isinstance(fact, LogLine | Exit | LastLine):
            times = [fact.time]
            ends = ends or (isinstance(fact, Exit) and fact.time is not None)
        else:
            continue
        known += (time for time in times if time is not None)
    if not known or min(known) < _ABSOLUTE:
        return None, None
    return (min(known) if begins else None), (max(known) if ends else None)


def _text(fact: LogLine | Exit) -> str:
    return fact.text if isinstance(fact, LogLine) else fact.quote


def _pids(text: str) -> set[str]:
    return {one or other for one, other in _PID.findall(text)}

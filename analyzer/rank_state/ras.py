"""What NCCL's health network (RAS) said of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyhang.analyzer.facts import RAS_LINE, LogLine, RasReport

if TYPE_CHECKING:
    from whyhang.analyzer.job.records import Job
    from whyhang.analyzer.report import RankStateName

WORDS: dict[str, tuple[RankStateName, str]] = {
    "dead": ("exited", "declared dead by NCCL RAS"),
    "unresponsive": ("unreachable", "does not answer NCCL RAS"),
    "left": ("running", "not in the communicator of the others (NCCL RAS)"),
    "error": ("running", "has an NCCL error (RAS)"),
    "behind": ("running", "behind the others in what it launched (NCCL RAS)"),
}
"""How a rank is of which nothing else is known; the first that fits counts."""


def ras_lines(job: Job, *states: str) -> list[LogLine]:
    """Return the lines with one of these states, without those of reports that are overtaken."""
    old = overtaken(job)
    return [
        line
        for line in job.lines_with((RAS_LINE,))
        if line.fields["state"] in states and line.source.file not in old
    ]


def ras_states(job: Job) -> dict[int, str]:
    """Return the state that RAS reports for each member, the first of ``WORDS`` that fits."""
    states: dict[int, str] = {}
    for state in reversed(WORDS):
        for line in ras_lines(job, state):
            member = job.member_of(line.who)
            if member is not None:
                states[member.id] = state
    return states


def overtaken(job: Job) -> set[str]:
    """List reports of a live snapshot that a later one replaces."""
    reports = job.of(RasReport)
    last = max((report.number for report in reports), default=0)
    return {report.source.file for report in reports if report.number < last}


def snapshot(job: Job) -> bool:
    """Return whether RAS was asked once only, so that nothing tells a job that moves."""
    return len({report.number for report in job.of(RasReport)}) == 1

"""What NCCL's health network (RAS) said of ranks, as lines with a state.

The reader of RAS reports gives a ``LogLine`` named ``MATCHED`` for each thing that is telling,
with ``state`` and, where known, ``node``, ``process``, ``gpu``, ``comm`` and ``number`` (the rank
within the communicator) among its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyhang.analyzer.facts import RasReport
from whyhang.analyzer.model import LogLine

if TYPE_CHECKING:
    from whyhang.analyzer.case import Case
    from whyhang.analyzer.report import RankState

MATCHED = "nccl-ras"

WORDS: dict[str, tuple[RankState, str]] = {
    "dead": ("exited", "declared dead by NCCL RAS"),
    "unresponsive": ("unreachable", "does not answer NCCL RAS"),
    "left": ("running", "not in the communicator of the others (NCCL RAS)"),
    "error": ("running", "has an NCCL error (RAS)"),
    "behind": ("running", "behind the others in what it launched (NCCL RAS)"),
}
"""How a rank is of which nothing else is known; the first that fits counts."""


def heard(case: Case, *states: str) -> list[LogLine]:
    """Give the lines with one of these states, without those of reports that are overtaken."""
    old = overtaken(case)
    return [
        line
        for line in case.job.lines_with((MATCHED,))
        if line.fields["state"] in states and line.source.file not in old
    ]


def overtaken(case: Case) -> set[str]:
    """List reports of one live look after which another was had."""
    reports = case.job.of(RasReport)
    last = max((report.number for report in reports), default=0)
    return {report.source.file for report in reports if report.number < last}


def snapshot(case: Case) -> bool:
    """Tell whether RAS was asked once only, so that nothing tells a job that moves."""
    return len({report.number for report in case.job.of(RasReport)}) == 1

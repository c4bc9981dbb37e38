"""What tables tell of ranks: their processes in one of ps, and a report of NCCL RAS."""

import posixpath
import re

from whyhang.analyzer.facts import RAS_LINE, LogLine, ProcessRank, ProcessState, RasReport, grouped
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.report import RankStateName

STATUSES = {"T": Status.STOPPED, "t": Status.STOPPED, "Z": Status.GONE, "D": Status.BLOCKED}


def odd_processes(job: Job) -> dict[int, ProcessState]:
    """Return the rows of the few ranks whose processes stand out in a table of processes."""
    rows = {rank: row for row in job.of(ProcessState) if (rank := _rank(job, row)) is not None}
    odd = {rank: row for rank, row in rows.items() if row.state in STATUSES}
    return odd if 2 * len(odd) < len(rows) else {}


_PYTHON = re.compile(r"python|pt_main|torchrun|ray::")
_IN_FILES = re.compile(r"nfs|rpc_wait|ceph|lustre|ll_|cl_sync_io|gpfs|fuse|xfs|ext4|btrfs|cifs|smb")


def odd_programs(job: Job) -> tuple[ProcessState, ...]:
    """Return the same for processes of Python of which no rank is known."""
    unknown = (row for row in job.of(ProcessState) if _rank(job, row) is None)
    of_python = (row for row in unknown if _PYTHON.match(_program(row)) or not _program(row))
    odd: list[ProcessState] = []
    for rows in grouped(of_python, lambda row: (row.source.file, _program(row))).values():
        few = 2 * sum(row.state in STATUSES for row in rows) < len(rows)
        in_files = (row for row in rows if row.state == "D" and _IN_FILES.match(row.wchan))
        odd += (row for row in rows if row.state in STATUSES) if few else in_files
    return tuple(odd)


def _program(row: ProcessState) -> str:
    return posixpath.basename(row.command.strip("[]").partition(" ")[0].rstrip("]"))


def _rank(job: Job, row: ProcessState) -> int | None:
    if row.who.rank is not None:
        return row.who.rank
    member = job.member_of(row.who)
    if member is not None:
        return member.rank
    ranks = {
        fact.rank
        for fact in job.of(ProcessRank)
        if fact.who.pid == row.who.pid and len({fact.who.host, row.who.host} - {None}) < 2
    }
    return next(iter(ranks)) if len(ranks) == 1 else None


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
    old, lines = overtaken(job), job.lines_with((RAS_LINE,))
    return [x for x in lines if x.fields["state"] in states and x.source.file not in old]


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

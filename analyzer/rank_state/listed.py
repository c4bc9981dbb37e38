"""States of ranks' processes in a table of ps that somebody added to the evidence.

In one table nearly all processes run or sleep, whatever they wait for; that tells nothing. Few that
are stopped, defunct or in uninterruptible sleep, beside others of the job that are not, stand out;
and one that waits in the code of a file system, which the kernel's name for its place tells.
"""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator

from whyhang.analyzer.facts import ProcessRank, ProcessState
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.rank_state.state import Status

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
    tables: dict[tuple[str, str], list[ProcessState]] = defaultdict(list)
    for row in job.of(ProcessState):
        program = posixpath.basename(row.command.strip("[]").partition(" ")[0].rstrip("]"))
        if _rank(job, row) is None and (_PYTHON.match(program) or not program):
            tables[row.source.file, program].append(row)
    return tuple(row for rows in tables.values() for row in _odd(rows))


def _odd(rows: list[ProcessState]) -> Iterator[ProcessState]:
    odd = [row for row in rows if row.state in STATUSES]
    few = 2 * len(odd) < len(rows)
    return (row for row in odd if few or (row.state == "D" and _IN_FILES.match(row.wchan)))


def _rank(job: Job, row: ProcessState) -> int | None:
    if row.who.rank is not None:
        return row.who.rank
    member = job.member_of(row.who)
    if member is not None:
        return member.rank
    ranks = {
        fact.rank
        for fact in job.of(ProcessRank)
        if fact.who.pid == row.who.pid
        and (fact.who.host is None or row.who.host is None or fact.who.host == row.who.host)
    }
    return next(iter(ranks)) if len(ranks) == 1 else None

"""States of ranks' processes in a table of ps that somebody added to the evidence.

In one table nearly all processes run or sleep, whatever they wait for; that tells nothing. Few that
are stopped, defunct or in uninterruptible sleep, beside others of the job that are not, stand out.
"""

from whyhang.analyzer.facts import ProcessRank, ProcessState
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.rank_state.state import Status

STATUSES = {"T": Status.STOPPED, "t": Status.STOPPED, "Z": Status.GONE, "D": Status.BLOCKED}


def odd_processes(job: Job) -> dict[int, ProcessState]:
    """Return the rows of the few ranks whose processes stand out in a table of processes."""
    rows = {rank: row for row in job.of(ProcessState) if (rank := _rank(job, row)) is not None}
    odd = {rank: row for rank, row in rows.items() if row.state in STATUSES}
    return odd if 2 * len(odd) < len(rows) else {}


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

"""Locks on files that are asked for again and again: who holds them is found by elimination.

``filelock`` and its like try, nap, and try anew: the kernel knows of no wait. It knows who holds
a lock, however. If one rank alone has locked a lock file while others of its host poll for one,
these are one and the same; what is not seen is the name that they poll for.
"""

import posixpath

from whyhang.analyzer.facts import LockWait, replace
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.stacks import FILE_LOCK, LineText, WaitKind, WaitRule, place_of


def with_polled_locks(job: Job, rules: tuple[WaitRule, ...], line_text: LineText) -> Job:
    """Tie ranks that poll for a lock file to the one rank of their host that has locked one."""
    holders = [m for m in job.members if _lock_files(m)]
    if not holders:
        return job
    polling = {
        m.id
        for m in job.members
        if m.processes and m.processes[-1].lock is None and _polls(m, rules, line_text)
    }
    members = []
    for member in job.members:
        on_host = [h for h in holders if h.host == member.host and h.id not in polling]
        if member.id in polling and len(on_host) == 1:
            members.append(_tied(member, on_host[0]))
        else:
            members.append(member)
    return replace(job, members=tuple(members))


def _lock_files(member: Member) -> list[str]:
    """List the files that a member has locked and that are there for it, by their names."""
    held = member.processes[-1].holds if member.processes else ()
    return [path for path in held if "lock" in posixpath.basename(path).lower()]


def _polls(member: Member, rules: tuple[WaitRule, ...], line_text: LineText) -> bool:
    if not member.dumps:
        return False
    place = place_of(member.dumps[-1], member.processes[-1], rules, line_text)
    return place.kind is WaitKind.LOCK and place.op == FILE_LOCK


def _tied(member: Member, holder: Member) -> Member:
    last = holder.processes[-1]
    paths = _lock_files(holder)
    lock = LockWait(
        holder_pid=holder.pid or 0,
        holder=last.command,
        path=paths[0] if len(paths) == 1 else None,
    )
    processes = (*member.processes[:-1], replace(member.processes[-1], lock=lock))
    return replace(member, processes=processes)

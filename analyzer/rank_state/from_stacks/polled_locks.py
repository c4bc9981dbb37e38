"""Locks on files that are asked for again and again: who holds them is found by elimination.

``filelock`` and its like try, nap, and try anew, as SQLite does: the kernel knows of no wait. It
knows who holds a lock, however. A rank that polls has the file open, as SQLite does, and then it is
the one that another rank has locked. Else, if one rank alone has locked a lock file while others of
its host poll for one, these are one and the same; what is not seen is the name that they poll for.
Where no rank holds it, a process outside the job may: one that has locked a file that the rank has
open.
"""

import posixpath

from whyhang.analyzer.facts import LockWait, replace
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.stacks import FILE_LOCK, LineText, WaitKind, WaitRule, place_of


def with_polled_locks(job: Job, rules: tuple[WaitRule, ...], line_text: LineText) -> Job:
    """Tie ranks that poll for a lock to the one rank or process of their host that has it."""
    holders = [m for m in job.members if m.processes and m.processes[-1].holds]
    others = any(m.processes and m.processes[-1].locked_by_others for m in job.members)
    if not holders and not others:
        return job
    polling = {m.id for m in job.members if _polls(m, rules, line_text)}
    members = {}
    for member in (m for m in job.members if m.id in polling):
        on_host = [h for h in holders if h.host == member.host and h.id not in polling]
        wanted = [(h, paths) for h in on_host if (paths := _wanted(member, h))]
        tied = [(h, paths) for h, paths in wanted if _has_open(member, paths[0])] or wanted
        last = member.processes[-1]
        locks: tuple[LockWait, ...] = last.locked_by_others
        if len(tied) == 1:
            ((holder, paths),) = tied
            path = paths[0] if len(paths) == 1 else None
            command = holder.processes[-1].command
            locks = (LockWait(holder_pid=holder.pid or 0, holder=command, path=path),)
        if len(locks) == 1:
            processes = (*member.processes[:-1], replace(last, lock=locks[0]))
            members[member.id] = replace(member, processes=processes)
    return replace(job, members=tuple(members.get(m.id, m) for m in job.members))


def _wanted(member: Member, holder: Member) -> list[str]:
    """List the files that ``holder`` has locked and ``member`` may poll for.

    Those that it has open itself; else those that are there to be locked, by their names.
    """
    held = holder.processes[-1].holds
    return [path for path in held if _has_open(member, path)] or [
        path for path in held if "lock" in posixpath.basename(path).lower()
    ]


def _has_open(member: Member, path: str) -> bool:
    """Return whether a file is among those that a member has open, however many times."""
    opened = member.processes[-1].descriptors
    return any(line == path or line.startswith(f"{path} x") for line in opened)


def _polls(member: Member, rules: tuple[WaitRule, ...], line_text: LineText) -> bool:
    if not member.dumps or not member.processes or member.processes[-1].lock is not None:
        return False
    place = place_of(member.dumps[-1], member.processes[-1], rules, line_text)
    return place.kind is WaitKind.LOCK and place.op == FILE_LOCK

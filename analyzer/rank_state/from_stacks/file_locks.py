"""Locks on files that ranks wait for and the kernel knows no wait of: who holds each.

``filelock`` and its like try, nap, and try anew, as SQLite does. The kernel knows who holds a lock,
however. A rank that polls has the file open, as SQLite does, and then it is the one that another
rank has locked. Else, if one rank alone has locked a lock file while others of its host poll for
one, these are one and the same; what is not seen is the name that they poll for. Where no rank
holds it, a process outside the job may: one that has locked a file that the rank has open.

A rank also waits with the processes that load its data: ``__getitem__`` takes a lock on a cache
that a rank holds while it waits in a collective. What is stuck is a DataLoader's worker, and
whoever holds the lock is where to look.
"""

import posixpath

from whyhang.analyzer.facts import LockWait, Role, replace
from whyhang.analyzer.job.records import Child, Job, Member
from whyhang.analyzer.stacks import FILE_LOCK, Place, PlaceOf, WaitKind


def with_polled_locks(job: Job, place_of: PlaceOf) -> Job:
    """Tie ranks that poll for a lock to the one rank or process of their host that has it."""
    holders = [m for m in job.members if m.last is not None and m.last.holds]
    others = any(m.last is not None and m.last.locked_by_others for m in job.members)
    if not holders and not others:
        return job
    polling = {member.id for member in job.members if _polls(member, place_of)}
    members = []
    for member in job.members:
        on_host = [h for h in holders if h.host == member.host and h.id not in polling]
        locks = _locks_wanted(member, on_host) if member.id in polling else ()
        members.append(_waiting_for(member, locks[0]) if len(locks) == 1 else member)
    return replace(job, members=tuple(members))


def _locks_wanted(member: Member, holders: list[Member]) -> tuple[LockWait, ...]:
    """Return the locks that a member may poll for, of these holders, else of other processes."""
    wanted = [(holder, paths) for holder in holders if (paths := _wanted(member, holder))]
    tied = [(holder, paths) for holder, paths in wanted if _has_open(member, paths[0])] or wanted
    if len(tied) != 1:
        return member.processes[-1].locked_by_others
    ((holder, paths),) = tied
    path = paths[0] if len(paths) == 1 else None
    command = holder.processes[-1].command
    return (LockWait(holder_pid=holder.pid or 0, holder=command, path=path),)


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


def _polls(member: Member, place_of: PlaceOf) -> bool:
    place = _place_without_lock(member, place_of)
    return place is not None and place.kind is WaitKind.LOCK and place.op == FILE_LOCK


def with_loaders_locks(job: Job, place_of: PlaceOf) -> Job:
    """Tie ranks that wait for their workers to the holder of the lock that these wait for.

    Not to one that is a worker itself: it may be about to let go.
    """
    workers = {(m.host, c.pid) for m in job.members for c in (*m.children, *m.helpers)}

    def tied(member: Member) -> Member:
        lock = next((lock for c in member.children if (lock := _awaited(c))), None)
        if lock is None or lock.holder_pid == member.pid:
            return member
        if (member.host, lock.holder_pid) in workers:
            return member
        place = _place_without_lock(member, place_of)
        loads = place is not None and place.kind is WaitKind.DATALOADER
        return _waiting_for(member, lock) if loads else member

    return replace(job, members=tuple(map(tied, job.members)))


def _awaited(child: Child) -> LockWait | None:
    """Return the lock that a worker has waited for whenever it was looked at."""
    locks = {process.lock for process in child.processes[-2:]}
    return locks.pop() if child.role is Role.DATALOADER_WORKER and len(locks) == 1 else None


def _place_without_lock(member: Member, place_of: PlaceOf) -> Place | None:
    """Return where a member stands, if its process was seen to wait for no lock on a file."""
    if not member.dumps or member.last is None or member.last.lock is not None:
        return None
    return place_of(member.dumps[-1], member.last)


def _waiting_for(member: Member, lock: LockWait) -> Member:
    last = replace(member.processes[-1], lock=lock)
    return replace(member, processes=(*member.processes[:-1], last))

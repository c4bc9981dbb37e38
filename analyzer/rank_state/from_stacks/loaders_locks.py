"""Locks on files that the processes which load a rank's data wait for: the rank waits with them.

``__getitem__`` takes a lock on a cache that a rank holds while it waits in a collective: what is
stuck is a DataLoader's worker, and whoever holds the lock is where to look.
"""

from whyhang.analyzer.facts import LockWait, Role, replace
from whyhang.analyzer.job.records import Child, Job, Member
from whyhang.analyzer.stacks import LineText, WaitKind, WaitRule, place_of


def with_loaders_locks(job: Job, rules: tuple[WaitRule, ...], line_text: LineText) -> Job:
    """Tie ranks that wait for their workers to the holder of the lock that these wait for.

    Not to one that is a worker itself: it may be about to let go.
    """
    workers = {(m.host, c.pid) for m in job.members for c in (*m.children, *m.helpers)}
    members = []
    for member in job.members:
        lock = next((lock for c in member.children if (lock := _awaited(c))), None)
        if (
            lock is not None
            and (member.host, lock.holder_pid) not in workers
            and lock.holder_pid != member.pid
            and _loads(member, rules, line_text)
        ):
            last = replace(member.processes[-1], lock=lock)
            members.append(replace(member, processes=(*member.processes[:-1], last)))
        else:
            members.append(member)
    return replace(job, members=tuple(members))


def _awaited(child: Child) -> LockWait | None:
    """Return the lock that a worker has waited for whenever it was looked at."""
    locks = {process.lock for process in child.processes[-2:]}
    return locks.pop() if child.role is Role.DATALOADER_WORKER and len(locks) == 1 else None


def _loads(member: Member, rules: tuple[WaitRule, ...], line_text: LineText) -> bool:
    if not member.dumps or not member.processes or member.processes[-1].lock is not None:
        return False
    place = place_of(member.dumps[-1], member.processes[-1], rules, line_text)
    return place.kind is WaitKind.DATALOADER

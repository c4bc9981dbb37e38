"""Which snapshots show the hang: a job that is watched may die or come to rest meanwhile.

What ranks did before says nothing about the hang that they are in since.
"""

from itertools import pairwise

from whyhang.analyzer.facts import replace
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.rank_state.over_time.motion import python_frames, ran_between

AT_REST = 3
"""Snapshots without any movement of any rank from which what was before them counts no more."""

LONG_AT_REST = 6
"""The same where a rank waits for a lock of its own process, which may be a slow one."""


def since_the_last_death(job: Job) -> Job:
    """Leave out the snapshots before the last rank ended, where two snapshots or more are left.

    One snapshot is not enough: at the end of a job ranks end one after the other.
    """
    died = [snapshot for member in job.members if (snapshot := _died_at(member)) is not None]
    last = max((p.look for member in job.members for p in member.processes), default=0)
    if not died or last - max(died) < 1:
        return job
    return replace(job, members=tuple(_since(max(died), member) for member in job.members))


def since_all_at_rest(job: Job, least: int = AT_REST) -> Job | None:
    """Leave out the snapshots before all ranks came to rest; None if they did not or always were.

    They rest for ``least`` snapshots. Counts only where no rank is at work by its place as well:
    that is for the caller to see.
    """
    ran = [snapshot for member in job.members if (snapshot := _ran_before(member)) is not None]
    snapshots = [process.look for member in job.members for process in member.processes]
    if not ran or len(ran) < len(job.members) or max(ran) == min(snapshots):
        return None
    if max(snapshots) - max(ran) < least - 1:
        return None
    return replace(job, members=tuple(_since(max(ran), member) for member in job.members))


def _ran_before(member: Member) -> int | None:
    """Return the snapshot since which a rank did not run at all; None where that is not known."""
    if len(member.processes) < AT_REST or len(member.dumps) < AT_REST:
        return None
    stacks = {dump.look: python_frames(dump) for dump in member.dumps}
    since = member.processes[-1].look
    for a, b in reversed(list(pairwise(member.processes))):
        same = a.look in stacks and stacks[a.look] == stacks.get(b.look)
        if ran_between(a, b) is not False or not same:
            break
        since = a.look
    return since


def _died_at(member: Member) -> int | None:
    """Return the snapshot in which a rank was first seen to be dead, if it lived before.

    One that was found and is no more, not even as a zombie, lived when the job was found.
    """
    dead = [process for process in member.processes if process.dead]
    vanished = dead and dead[0].state == "X"
    return dead[0].look if vanished or (dead and dead[0] is not member.processes[0]) else None


def ended_meanwhile(job: Job) -> frozenset[int]:
    """Return the members that were seen alive and have ended since."""
    seen = (member for member in job.members if member.processes)
    return frozenset(member.id for member in seen if _died_at(member) is not None)


def all_ended_meanwhile(job: Job) -> bool:
    """Return whether the job ended between the snapshots."""
    return bool(job.members) and len(ended_meanwhile(job)) == len(job.members)


def _since(snapshot: int, member: Member) -> Member:
    if _died_at(member) is not None:
        return member
    return replace(
        member,
        processes=tuple(p for p in member.processes if p.look >= snapshot),
        dumps=tuple(d for d in member.dumps if d.look >= snapshot) or member.dumps[-1:],
    )

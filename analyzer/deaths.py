"""A rank that ends while it is watched: what the others did before tells nothing of them now."""

from __future__ import annotations

from whyhang.analyzer.case import Job, Member
from whyhang.analyzer.model import replace

DEAD = {"Z", "X", "x"}


def since_the_last_death(job: Job) -> Job:
    """Leave out the looks before the last rank ended, where two looks or more are left.

    One look is not enough: at the end of a job ranks end one after the other.
    """
    died = [look for member in job.members if (look := _died_at(member)) is not None]
    last = max((p.look for member in job.members for p in member.processes), default=0)
    if not died or last - max(died) < 1:
        return job
    return replace(job, members=tuple(_since(max(died), member) for member in job.members))


def _died_at(member: Member) -> int | None:
    """Give the look at which a rank was first seen to be dead, if it lived at one before."""
    dead = [process.look for process in member.processes if process.state in DEAD]
    return dead[0] if dead and dead[0] > member.processes[0].look else None


def _since(look: int, member: Member) -> Member:
    if _died_at(member) is not None:
        return member
    return replace(
        member,
        processes=tuple(p for p in member.processes if p.look >= look),
        dumps=tuple(d for d in member.dumps if d.look >= look) or member.dumps[-1:],
    )

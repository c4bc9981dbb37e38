"""Ranks that wait for a lock on a file, by who holds it."""

from collections.abc import Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LockWait, grouped, program
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import Member, lock_holder
from whyhang.analyzer.queries.hits import hit_about, places_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.states import waiters_for
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.wording.describe import call_of


@query
def file_locks(
    case: Case, held_by: Literal["rank", "outsider", "each-other", "itself"]
) -> Iterator[Hit]:
    """Yield one hit for each holder of a lock that ranks wait for, or each circle of holders.

    ``held_by`` is a rank that waits for other ranks itself, a process that is no rank, or the very
    process that waits.
    """
    waiting = [] if case.graph.progress else _waiting(case)
    for own in grouped(waiting, lambda each: (each[0].host, each[1].holder_pid)).values():
        holder = lock_holder(case.job, own[0][0])
        circle = _circle(case, holder)
        if held_by == "each-other":
            if circle and holder == circle[0]:
                yield _circle_hit(case, circle)
            continue
        waits = holder is not None and case.states[holder.id].status is Status.WAITING
        other = "itself" if _holds_it(*own[0]) else "outsider"
        if not circle and (waits if held_by == "rank" else holder is None and held_by == other):
            yield _hit(case, own, holder)


def _holds_it(member: Member, lock: LockWait) -> bool:
    """Return whether a process waits for a lock that it has by another handle of the file."""
    children = (child.last.lock for child in member.children if child.last is not None)
    return lock.holder_pid == member.pid and lock not in children


def _circle(case: Case, holder: Member | None) -> list[Member]:
    """Return the ranks that each want what the next one holds, first the lowest; empty if none."""
    waiting, path = {member.id for member, _ in _waiting(case)}, list[Member]()
    while holder is not None and holder not in path:
        path.append(holder)
        holder = lock_holder(case.job, holder) if holder.id in waiting else None
    return sorted(path, key=lambda m: m.id) if holder is not None and holder == path[0] else []


def _circle_hit(case: Case, circle: list[Member]) -> Hit:
    members = [member.id for member in circle]
    waiting = [(member, lock) for member, lock in _waiting(case) if member in circle]
    has = [
        f"{holder.name} has {lock.path or 'a file'}, which {member.name} wants"
        for member, lock in waiting
        if (holder := lock_holder(case.job, member))
    ]
    return hit_about(
        case,
        members,
        [number for number in waiters_for(case) if number not in members],
        evidence=(*(_cite_wait(case, *each) for each in waiting[:3]), *places_of(case, *members)),
        fields={"locks": "; ".join(has)},
    )


def _waiting(case: Case) -> list[tuple[Member, LockWait]]:
    """List the ranks that wait for a lock on a file, with that lock."""
    waits = {Status.BLOCKED, Status.WAITING}
    members = (case.member(state.member) for state in case.states if state.status in waits)
    locks = ((member, member.last.lock) for member in members if member.last is not None)
    return [(member, lock) for member, lock in locks if lock is not None]


def _hit(case: Case, waiting: list[tuple[Member, LockWait]], holder: Member | None) -> Hit:
    lock, wanting = waiting[0][1], [member.id for member, _ in waiting]
    inside = sorted(wanting)
    others = [number for number in waiters_for(case) if number not in inside]
    blamed = [holder.id] if holder is not None else wanting
    everyone = len(inside) == len([s for s in case.states if s.status is not Status.IDLE])
    return hit_about(
        case,
        blamed,
        [*inside, *(n for n in others if n != holder.id)] if holder is not None else others,
        names_culprit=holder is not None or not everyone,
        evidence=(*(_cite_wait(case, *each) for each in waiting[:3]), *places_of(case, *blamed)),
        collective=call_of(case, waiters_for(case)),
        fields={
            "file": lock.path or "a file",
            "holder": _holder_words(lock, _starter(case, lock)),
            "wanting": case.names(inside),
            "want": "waits for" if len(inside) == 1 else "wait for",
        },
    )


def _holder_words(lock: LockWait, starter: str = "") -> str:
    if not lock.holder:
        return f"process {lock.holder_pid}, which has ended or cannot be seen"
    started = f", started by {starter}" if starter else ""
    return f"process {lock.holder_pid} ({program(lock.holder)}{started})"


def _starter(case: Case, lock: LockWait) -> str:
    """Name the rank whose child the holder is: a helper keeps the files it was started with."""
    for member in case.job.members:
        for child in (*member.children, *member.helpers):
            if child.pid == lock.holder_pid:
                return member.name
    return ""


def _cite_wait(case: Case, member: Member, lock: LockWait) -> Evidence:
    holder, held_by = lock_holder(case.job, member), _holder_words(lock)
    if lock.holder or holder is not None:
        rank = f"{holder.name}, " if holder is not None else ""
        held_by = f"{rank}process {lock.holder_pid}: {lock.holder}".removesuffix(": ")
    # a worker, which loads what its rank waits for
    asks = (c.pid for c in member.children if c.last is not None and c.last.lock == lock)
    pid = next(asks, member.pid)
    words = f"pid {pid} waits for the lock on {lock.path or 'a file'}, held by {held_by}"
    return cite(member.processes[-1].source, words, member.rank)

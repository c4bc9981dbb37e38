"""Ranks that wait for a lock on a file, by who holds it."""

from collections.abc import Iterable, Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LockWait, grouped, program
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import Member, lock_holder
from whyhang.analyzer.queries.hits import hit_about, places_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.states import waiters_for
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.wording.describe import call_of


@query
def file_locks(case: Case, held_by: Literal["rank", "outsider", "each-other"]) -> Iterator[Hit]:
    """Yield one hit for each holder of a lock that ranks wait for, or each circle of holders.

    ``held_by`` is a rank that waits for other ranks itself, or a process that is no rank.
    """
    for states in _waiting_by_holder(case):
        holder = lock_holder(case.job, case.member(states[0].member))
        circle = _circle(case, holder)
        if held_by == "each-other":
            if circle and holder == circle[0]:
                yield _circle_hit(case, circle)
            continue
        waits = holder is not None and case.states[holder.id].status is Status.WAITING
        if not circle and (waits if held_by == "rank" else holder is None):
            yield _hit(case, states)


def _circle(case: Case, holder: Member | None) -> list[Member]:
    """Return the ranks that each want what the next one holds, first the lowest; empty if none."""
    path: list[Member] = []
    while holder is not None and holder not in path:
        path.append(holder)
        holder = lock_holder(case.job, holder) if _lock(case, case.states[holder.id]) else None
    return sorted(path, key=lambda m: m.id) if holder is not None and holder == path[0] else []


def _circle_hit(case: Case, circle: list[Member]) -> Hit:
    members = [member.id for member in circle]
    has = [
        f"{holder.name} has {lock.path or 'a file'}, which {member.name} wants"
        for member in circle
        if (lock := member.processes[-1].lock) and (holder := lock_holder(case.job, member))
    ]
    return hit_about(
        case,
        members,
        [number for number in waiters_for(case) if number not in members],
        evidence=(*(_cite_wait(case, m) for m in circle[:3]), *places_of(case, *members)),
        fields={"locks": "; ".join(has)},
    )


def _waiting_by_holder(case: Case) -> Iterable[list[RankState]]:
    """Group the ranks that wait for a lock by its holder; none where the job moves."""
    locks = [(s, lock) for s in case.states if (lock := _lock(case, s)) is not None]
    by_holder = grouped(
        [] if case.graph.progress else locks,
        lambda each: (case.member(each[0].member).host, each[1].holder_pid),
    )
    return [[state for state, _ in own] for own in by_holder.values()]


def _lock(case: Case, state: RankState) -> LockWait | None:
    last = case.member(state.member).last
    waits = state.status in {Status.BLOCKED, Status.WAITING}
    return last.lock if waits and last is not None else None


def _hit(case: Case, states: list[RankState]) -> Hit:
    wanting = [case.member(state.member) for state in states]
    lock, holder = wanting[0].processes[-1].lock, lock_holder(case.job, wanting[0])
    inside = sorted(member.id for member in wanting)
    others = [number for number in waiters_for(case) if number not in inside]
    blamed = [holder.id] if holder is not None else [member.id for member in wanting]
    everyone = len(inside) == len([s for s in case.states if s.status is not Status.IDLE])
    return hit_about(
        case,
        blamed,
        [*inside, *(n for n in others if n != holder.id)] if holder is not None else others,
        names_culprit=holder is not None or not everyone,
        evidence=(*(_cite_wait(case, m) for m in wanting[:3]), *places_of(case, *blamed)),
        collective=call_of(case, waiters_for(case)),
        fields={
            "file": (lock.path if lock is not None else None) or "a file",
            "holder": _holder_words(lock, _starter(case, lock)),
            "wanting": case.names(inside),
            "want": "waits for" if len(inside) == 1 else "wait for",
        },
    )


def _holder_words(lock: LockWait | None, starter: str = "") -> str:
    if lock is None:
        return "another process"
    if not lock.holder:
        return f"process {lock.holder_pid}, which has ended or cannot be seen"
    started = f", started by {starter}" if starter else ""
    return f"process {lock.holder_pid} ({program(lock.holder)}{started})"


def _starter(case: Case, lock: LockWait | None) -> str:
    """Name the rank whose child the holder is: a helper keeps the files it was started with."""
    for member in case.job.members:
        for child in (*member.children, *member.helpers):
            if lock is not None and child.pid == lock.holder_pid:
                return member.name
    return ""


def _cite_wait(case: Case, member: Member) -> Evidence:
    process = member.processes[-1]
    lock, holder = process.lock, lock_holder(case.job, member)
    file = lock.path if lock is not None and lock.path else "a file"
    held_by = _holder_words(lock)
    if lock is not None and (lock.holder or holder is not None):
        rank = f"{holder.name}, " if holder is not None else ""
        held_by = f"{rank}process {lock.holder_pid}: {lock.holder}".removesuffix(": ")
    asks = (c for c in member.children if c.last is not None and c.last.lock == lock)
    worker = next(asks, None) if lock is not None else None  # it loads what its rank waits for
    pid = member.pid if worker is None else worker.pid
    words = f"pid {pid} waits for the lock on {file}, held by {held_by}"
    return cite(process.source, words, member.rank)

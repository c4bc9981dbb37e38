"""Matchers over locks: on files, whose holder /proc tells, and within a process."""

from __future__ import annotations

import enum

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LockWait, Record, replace
from whyhang.analyzer.findings.signature import INDIRECT, Hit
from whyhang.analyzer.job.records import lock_holder
from whyhang.analyzer.match.late import SHARED, late
from whyhang.analyzer.match.states import waiters_for
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.kinds import FILE_LOCK
from whyhang.analyzer.wording.describe import evidence_of, location_of, subject_fields


class LockOfItsOwn(Record):
    """A rank's main thread waits for a lock while another thread of it waits for one too."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit per such rank; two waiting threads make a cycle likely."""
        hits = []
        for hit in late(WaitKind.LOCK, WaitKind.GIL, alone=True)(case):
            state = case.states[hit.members[0]]
            if state.place is None or state.place.op == FILE_LOCK:
                continue
            if _is_shared(state) and len(hit.members) > 1:
                continue
            hits.append(replace(hit, names_culprit=hit.names_culprit and not _all(case, hit)))
        return tuple(hits)


def waits_for_lock_of_its_own() -> LockOfItsOwn:
    """Ask for ranks stuck on a lock or the GIL within their own process."""
    return LockOfItsOwn()


def _is_shared(state: RankState) -> bool:
    """Tell a lock that processes share, as multiprocessing makes it."""
    frame = state.place.frame if state.place is not None else None
    return frame is not None and frame.file.endswith(SHARED)


def _all(case: Case, hit: Hit) -> bool:
    """Tell whether a hit is about every rank of several: then none differs from the others."""
    return len(hit.members) > 1 and len(hit.members) == len(case.states)


class SharedLock(Record):
    """Several ranks wait for a lock that processes share; who holds it, no stack tells.

    Where all ranks but one want it and this one waits for them, it is the one.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the ranks that want the lock at one place."""
        hits = []
        for hit in late(WaitKind.LOCK, alone=True)(case):
            wanting = [case.states[number] for number in hit.members]
            if len(wanting) < 2 or not all(map(_is_shared, wanting)):
                continue
            fields = {**hit.fields, "wanting": case.names(hit.members)}
            one = hit.affected if len(hit.affected) + len(wanting) == len(case.states) else ()
            if len(one) == 1:
                holder = case.states[one[0]]
                fields |= subject_fields(case, [holder], hit.members)
                fields["says"] = (
                    f"{fields['who']} is {fields['does']}{fields['at']}, and so has the lock that "
                    f"{fields['wanting']} wait for"
                )
                evidence = (*evidence_of(case, holder)[:1], *hit.evidence)
                location = location_of(case, holder)
                hits.append(
                    replace(
                        hit,
                        members=one,
                        affected=hit.members,
                        fields=fields,
                        evidence=evidence,
                        location=location,
                        strength=INDIRECT,
                    )
                )
            else:
                fields["says"] = (
                    f"{fields['wanting']} wait for a lock that processes share{fields['at']}"
                    f"{fields['waiting']}"
                )
                hits.append(replace(hit, fields=fields, names_culprit=False))
        return tuple(hits)


def wants_shared_lock() -> SharedLock:
    """Ask for ranks that wait for a lock that processes share; see ``SharedLock``."""
    return SharedLock()


class Holder(enum.Enum):
    """Who holds the lock that ranks wait for."""

    RANK = "rank"  # a rank that itself waits for other ranks
    OUTSIDER = "outsider"  # a process that is no rank of the job


class FileLock(Record):
    """Ranks wait for a lock on a file, and it is known who holds it."""

    by: Holder

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for each holder."""
        if case.graph.progress:
            return ()
        groups: dict[tuple[str | None, int], list[RankState]] = {}
        for state in case.states:
            lock = _lock(case, state)
            if lock is not None and self._fits(case, state):
                key = (case.member(state.member).host, lock.holder_pid)
                groups.setdefault(key, []).append(state)
        return tuple(_hit(case, states) for states in groups.values())

    def _fits(self, case: Case, state: RankState) -> bool:
        holder = lock_holder(case.job, case.member(state.member))
        if self.by is Holder.OUTSIDER:
            return holder is None
        return holder is not None and case.states[holder.id].status is Status.WAITING


def file_lock(by: Holder) -> FileLock:
    """Ask for ranks that wait for a lock on a file; see ``FileLock``."""
    return FileLock(by=by)


def _lock(case: Case, state: RankState) -> LockWait | None:
    member = case.member(state.member)
    waits = state.status in {Status.BLOCKED, Status.WAITING}
    return member.processes[-1].lock if waits and member.processes else None


def _hit(case: Case, states: list[RankState]) -> Hit:
    member = case.member(states[0].member)
    lock = member.processes[-1].lock
    holder = lock_holder(case.job, member)
    inside = {state.member for state in states}
    others = tuple(n for n in waiters_for(case) if n not in inside)
    blamed = [case.states[holder.id]] if holder is not None else states
    fields = subject_fields(case, blamed, others if holder is None else sorted(inside))
    fields["file"] = (lock.path if lock is not None else None) or "a file"
    fields["holder"] = _holder_words(lock)
    fields["wanting"] = case.names(inside)
    everyone = len(inside) == len([s for s in case.states if s.status is not Status.IDLE])
    return Hit(
        members=tuple(state.member for state in blamed),
        affected=tuple(sorted(inside)) if holder is not None else others,
        names_culprit=holder is not None or not everyone,
        evidence=(
            *(_quote(case, state) for state in states[:3]),
            *(piece for state in blamed for piece in evidence_of(case, state)[:1]),
        ),
        location=location_of(case, blamed[0]),
        fields=fields,
    )


def _holder_words(lock: LockWait | None) -> str:
    if lock is None:
        return "another process"
    said = f" ({lock.holder})" if lock.holder else ", which has ended or cannot be seen"
    return f"process {lock.holder_pid}{said}"


def _quote(case: Case, state: RankState) -> Evidence:
    member = case.member(state.member)
    process = member.processes[-1]
    lock = process.lock
    file = lock.path if lock is not None and lock.path else "a file"
    return Evidence(
        source=process.source.file,
        line=process.source.line,
        rank=member.rank,
        quote=f"pid {member.pid} waits for the lock on {file}, held by {_holder_words(lock)}",
    )

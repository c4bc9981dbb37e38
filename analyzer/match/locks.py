"""Matchers over locks: on files, whose holder /proc tells, and within a process."""

from __future__ import annotations

import enum

from whyhang.analyzer.case import Case, Stand, Standing, lock_holder
from whyhang.analyzer.describe import evidence_of, location_of, subject_fields
from whyhang.analyzer.match.late import SHARED, late
from whyhang.analyzer.match.stands import waiters_for
from whyhang.analyzer.model import LockWait, Record, replace
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.signature import Hit
from whyhang.analyzer.waits import FILE_LOCK, WaitKind


class LockOfItsOwn(Record):
    """A rank's main thread waits for a lock while another thread of it waits for one too."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit per such rank; two waiting threads make a cycle likely."""
        hits = []
        for hit in late(WaitKind.LOCK, WaitKind.GIL, alone=True)(case):
            stand = case.stands[hit.members[0]]
            if stand.place is None or stand.place.op == FILE_LOCK:
                continue
            if _is_shared(stand) and len(hit.members) > 1:
                continue
            hits.append(replace(hit, names_culprit=hit.names_culprit and not _all(case, hit)))
        return tuple(hits)


def waits_for_lock_of_its_own() -> LockOfItsOwn:
    """Ask for ranks stuck on a lock or the GIL within their own process."""
    return LockOfItsOwn()


def _is_shared(stand: Stand) -> bool:
    """Tell a lock that processes share, as multiprocessing makes it."""
    frame = stand.place.frame if stand.place is not None else None
    return frame is not None and frame.file.endswith(SHARED)


def _all(case: Case, hit: Hit) -> bool:
    """Tell whether a hit is about every rank of several: then none differs from the others."""
    return len(hit.members) > 1 and len(hit.members) == len(case.stands)


class SharedLock(Record):
    """Several ranks wait for a lock that processes share; who holds it, no stack tells.

    Where all ranks but one want it and this one waits for them, it is the one.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the ranks that want the lock at one place."""
        hits = []
        for hit in late(WaitKind.LOCK, alone=True)(case):
            wanting = [case.stands[number] for number in hit.members]
            if len(wanting) < 2 or not all(map(_is_shared, wanting)):
                continue
            fields = {**hit.fields, "wanting": case.names(hit.members)}
            one = hit.affected if len(hit.affected) + len(wanting) == len(case.stands) else ()
            if len(one) == 1:
                holder = case.stands[one[0]]
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
                        strength=0.9,
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
        if case.picture.progress:
            return ()
        groups: dict[tuple[str | None, int], list[Stand]] = {}
        for stand in case.stands:
            lock = _lock(case, stand)
            if lock is not None and self._fits(case, stand):
                key = (case.member(stand.member).host, lock.holder_pid)
                groups.setdefault(key, []).append(stand)
        return tuple(_hit(case, stands) for stands in groups.values())

    def _fits(self, case: Case, stand: Stand) -> bool:
        holder = lock_holder(case.job, case.member(stand.member))
        if self.by is Holder.OUTSIDER:
            return holder is None
        return holder is not None and case.stands[holder.id].standing is Standing.WAITING


def file_lock(by: Holder) -> FileLock:
    """Ask for ranks that wait for a lock on a file; see ``FileLock``."""
    return FileLock(by=by)


def _lock(case: Case, stand: Stand) -> LockWait | None:
    member = case.member(stand.member)
    waits = stand.standing in {Standing.BLOCKED, Standing.WAITING}
    return member.processes[-1].lock if waits and member.processes else None


def _hit(case: Case, stands: list[Stand]) -> Hit:
    member = case.member(stands[0].member)
    lock = member.processes[-1].lock
    holder = lock_holder(case.job, member)
    inside = {stand.member for stand in stands}
    others = tuple(n for n in waiters_for(case) if n not in inside)
    blamed = [case.stands[holder.id]] if holder is not None else stands
    fields = subject_fields(case, blamed, others if holder is None else sorted(inside))
    fields["file"] = (lock.path if lock is not None else None) or "a file"
    fields["holder"] = _holder_words(lock)
    fields["wanting"] = case.names(inside)
    everyone = len(inside) == len([s for s in case.stands if s.standing is not Standing.IDLE])
    return Hit(
        members=tuple(stand.member for stand in blamed),
        affected=tuple(sorted(inside)) if holder is not None else others,
        names_culprit=holder is not None or not everyone,
        evidence=(
            *(_quote(case, stand) for stand in stands[:3]),
            *(piece for stand in blamed for piece in evidence_of(case, stand)[:1]),
        ),
        location=location_of(case, blamed[0]),
        fields=fields,
    )


def _holder_words(lock: LockWait | None) -> str:
    if lock is None:
        return "another process"
    said = f" ({lock.holder})" if lock.holder else ", which has ended or cannot be seen"
    return f"process {lock.holder_pid}{said}"


def _quote(case: Case, stand: Stand) -> Evidence:
    member = case.member(stand.member)
    process = member.processes[-1]
    lock = process.lock
    file = lock.path if lock is not None and lock.path else "a file"
    return Evidence(
        source=process.source.file,
        line=process.source.line,
        rank=member.rank,
        quote=f"pid {member.pid} waits for the lock on {file}, held by {_holder_words(lock)}",
    )

"""Ranks wait for a lock on a file, and the kernel tells who holds it."""

from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LockWait, program
from whyhang.analyzer.job.records import lock_holder
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, Status
from whyhang.analyzer.report import Evidence


def held_by_rank(case: Case) -> Iterator[Hit]:
    """Yield one hit for each rank that holds a lock and waits for other ranks itself."""
    for states in _waiting_by_holder(case):
        holder = lock_holder(case.job, case.member(states[0].member))
        if holder is not None and case.states[holder.id].status is Status.WAITING:
            yield _hit(case, states)


def held_elsewhere(case: Case) -> Iterator[Hit]:
    """Yield one hit for each holder that is no rank of the job."""
    for states in _waiting_by_holder(case):
        if lock_holder(case.job, case.member(states[0].member)) is None:
            yield _hit(case, states)


HELD_BY_RANK = Signature(
    id="file-lock-held-by-rank",
    story="""\
A rank holds the lock on a file while it waits for ranks that want the same lock.

``with FileLock(...): ...; dist.barrier()`` on one rank and the same lock on the others: the
holder waits in the barrier for ranks that cannot come before it lets go. The kernel's table of
locks tells who holds it.
""",
    category="gil-or-lock-deadlock",
    level="program",
    title="{who} {is} {does}{at} and {has} the lock on {file} that {wanting} wait for",
    when=held_by_rank,
    means=(
        "{wanting} cannot go on before {who} releases the lock on {file}, and {who} waits for "
        "them{at}: neither ever ends."
    ),
    confidence="certain",
    remedies=(
        "Release the lock before the collective: no collective, barrier or send inside the lock.",
        "Let one rank do the guarded work and the others wait in a barrier, without the lock.",
    ),
    next_steps=("grep -e '->' -B1 /proc/locks  # holder, then who waits",),
)

HELD_ELSEWHERE = Signature(
    id="file-lock-held-elsewhere",
    story="""\
Ranks wait for a lock on a file that a process outside the job holds.

A leftover of the last run, a download or a build of another job on the same host. The kernel's
table of locks names its process.
""",
    category="stale-lock-file",
    level="program",
    title="{who} {is} waiting for the lock on {file}, which {holder} holds{waiting}",
    when=held_elsewhere,
    means=(
        "{who} {is} waiting for the lock on {file}. Its holder, {holder}, is no rank of this job "
        "and has not released it."
    ),
    confidence="certain",
    remedies=(
        "If the holder is a leftover of an earlier run, end it; the lock is released with it.",
        "Give each job a cache or build folder of its own.",
    ),
    next_steps=("grep -e '->' -B1 /proc/locks  # holder, then who waits",),
)

SIGNATURES = (HELD_BY_RANK, HELD_ELSEWHERE)


def _waiting_by_holder(case: Case) -> Iterable[list[RankState]]:
    """Group the ranks that wait for a lock by its holder; none where the job moves."""
    groups: dict[tuple[str | None, int], list[RankState]] = {}
    for state in case.states:
        lock = _lock(case, state)
        if lock is not None and not case.graph.progress:
            key = (case.member(state.member).host, lock.holder_pid)
            groups.setdefault(key, []).append(state)
    return groups.values()


def _lock(case: Case, state: RankState) -> LockWait | None:
    member = case.member(state.member)
    waits = state.status in {Status.BLOCKED, Status.WAITING}
    return member.processes[-1].lock if waits and member.processes else None


def _hit(case: Case, states: list[RankState]) -> Hit:
    member = case.member(states[0].member)
    lock = member.processes[-1].lock
    holder = lock_holder(case.job, member)
    inside = {state.member for state in states}
    others = tuple(n for n in queries.waiters_for(case) if n not in inside)
    blamed = [case.states[holder.id]] if holder is not None else states
    fields = queries.subject_fields(case, blamed, others if holder is None else sorted(inside))
    fields["file"] = (lock.path if lock is not None else None) or "a file"
    fields["holder"] = _holder_words(lock)
    fields["wanting"] = case.names(inside)
    everyone = len(inside) == len([s for s in case.states if s.status is not Status.IDLE])
    return Hit(
        members=tuple(state.member for state in blamed),
        affected=tuple(sorted(inside)) if holder is not None else others,
        names_culprit=holder is not None or not everyone,
        evidence=(
            *(_cite_wait(case, state) for state in states[:3]),
            *(piece for state in blamed for piece in queries.evidence_of(case, state)[:1]),
        ),
        location=queries.location_of(case, blamed[0]),
        fields=fields,
    )


def _holder_words(lock: LockWait | None) -> str:
    if lock is None:
        return "another process"
    if not lock.holder:
        return f"process {lock.holder_pid}, which has ended or cannot be seen"
    return f"process {lock.holder_pid} ({program(lock.holder)})"


def _cite_wait(case: Case, state: RankState) -> Evidence:
    member = case.member(state.member)
    process = member.processes[-1]
    lock, holder = process.lock, lock_holder(case.job, member)
    file = lock.path if lock is not None and lock.path else "a file"
    held_by = _holder_words(lock)
    if lock is not None and (lock.holder or holder is not None):
        rank = f"{holder.name}, " if holder is not None else ""
        held_by = f"{rank}process {lock.holder_pid}: {lock.holder}".removesuffix(": ")
    words = f"pid {member.pid} waits for the lock on {file}, held by {held_by}"
    return queries.cite(process.source, words, member.rank)

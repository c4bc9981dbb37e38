"""A rank waits for a result of its pool of processes, and no worker of the pool has a task.

``multiprocessing.Pool`` starts a new worker in place of one that was killed, and never hands out
again the task that this one had: its result does not come, and nothing is raised. The new worker
is younger than the others. (``concurrent.futures`` raises ``BrokenProcessPool`` instead.)
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import replace
from whyhang.analyzer.findings.signature import INDIRECT
from whyhang.analyzer.job.records import Child
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, WaitKind
from whyhang.analyzer.stacks.kinds import PROCESS_POOL

AT_ONCE = 0.25
"""Seconds within which a pool starts all of its workers, at most."""

_FOR_WORK = frozenset({WaitKind.IDLE, WaitKind.QUEUE})


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that wait at one place for a task that no worker has."""
    for hit in queries.lagging(
        case, WaitKind.FUTURE, op=PROCESS_POOL, only=_no_worker_has_it, alone=True
    ):
        state = case.states[hit.members[0]]
        workers = _by_start(case, state)
        lateness = _started(workers[-1]) - _started(workers[0]) if workers else 0.0
        if lateness <= AT_ONCE:
            replaced = {"replaced": "", "cause": "was lost"}
            yield replace(hit, fields={**hit.fields, **replaced}, strength=hit.strength * INDIRECT)
            continue
        process = workers[-1].processes[-1]
        quote = f"pid {workers[-1].pid} was started {lateness:.1f} s after the first worker"
        evidence = queries.cite(process.source, quote, case.member(state.member).rank)
        replaced = {
            "replaced": f", and process {workers[-1].pid} was started in place of one that ended",
            "cause": "was lost with that one",
        }
        yield replace(hit, evidence=(evidence, *hit.evidence), fields={**hit.fields, **replaced})


SIGNATURE = Signature(
    id="pool-task-lost",
    category="missing-rank-in-collective",
    level="kill",
    title="{who} {waits} for a result of its process pool{at}, and no worker has the task{waiting}",
    when=when,
    means=(
        "Every worker of the pool of {who} waits for a task{replaced}: the task that {who} {waits} "
        "for {cause}, and its result never comes."
    ),
    confidence="strong",
    remedies=(
        "Find out what ended the worker: dmesg (oom-kill), a crash in C code, os._exit in a task.",
        "Use concurrent.futures.ProcessPoolExecutor: it raises where a worker dies.",
        "Or give results of the pool a timeout: map_async(...).get(timeout=...).",
    ),
    next_steps=("dmesg -T | grep -iE 'oom|killed process|segfault'",),
)


def _no_worker_has_it(state: RankState) -> bool:
    places = [place for place in state.children if place is not None]
    return bool(places) and all(p.user is None and p.kind in _FOR_WORK for p in places)


def _by_start(case: Case, state: RankState) -> list[Child]:
    children = case.member(state.member).children
    known = (c for c in children if c.processes and c.processes[-1].started_at is not None)
    return sorted(known, key=_started)


def _started(child: Child) -> float:
    return child.processes[-1].started_at or 0.0

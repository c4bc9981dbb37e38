"""Lagging ranks of which it is known why: what they wait for cannot come, or is held."""

import functools
from collections.abc import Iterable, Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Exit, Process, program, replace, same_host
from whyhang.analyzer.findings.signature import CLEAR, INDIRECT, Hit
from whyhang.analyzer.job.records import Child
from whyhang.analyzer.queries.hits import merged
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.queries.waits.lagging import lagging
from whyhang.analyzer.queries.waits.states import is_shared_lock
from whyhang.analyzer.rank_state.over_time.motion import Moved
from whyhang.analyzer.rank_state.state import RankState, busy_worker
from whyhang.analyzer.report import cite
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.kinds import AWAITED_FILE, EXIT, FILE_LOCK, OPENMP, PIPE, PROCESS_POOL
from whyhang.analyzer.stacks.place import from_kernel
from whyhang.analyzer.wording.describe import evidence_of, location_of, other_end
from whyhang.analyzer.wording.title_fields import subject_fields

OUTPUT = "its own last lines, where its standard error goes"
KERNEL_LOG = "dmesg -T | grep -iE 'oom|killed process|segfault'"
"""Where the reason stands for which a process ended."""

_ON_A_PROCESS = (
    WaitKind.SUBPROCESS,
    WaitKind.DATALOADER,
    WaitKind.FUTURE,
    WaitKind.QUEUE,
    WaitKind.POLL,
)


@side("lagging_for", reason="stopped-helper")
def _helper_stopped(case: Case) -> Iterator[Hit]:
    """Yield one hit for each place at which such ranks stand.

    A DataLoader's worker that is stopped in the dataset is reported with the batch that it owes.
    """
    for hit in lagging(case, *_ON_A_PROCESS, WaitKind.FILE, alone=True):
        state = case.states[hit.members[0]]
        if state.kind is WaitKind.FILE and (state.place is None or state.place.op != PIPE):
            continue
        child = _stopped(case, state)
        if child is None:
            continue
        process = child.processes[-1]
        quote = f"pid {child.pid} State: {process.state}, {process.command}"
        evidence = cite(process.source, quote, case.member(state.member).rank)
        runs = program(process.command) or "a process"
        fields = {**hit.fields, "child": str(child.pid), "runs": runs}
        yield replace(hit, evidence=(evidence, *hit.evidence), fields=fields)


def _stopped(case: Case, state: RankState) -> Child | None:
    worker = busy_worker(state)
    if worker is not None and worker[1].stopped:
        return None
    member = case.member(state.member)
    below = (*member.children, *member.helpers)
    return next((c for c in below if c.last is not None and c.last.stopped), None)


@side("lagging_for", reason="ended-helper")
def _helper_ended(case: Case) -> Iterator[Hit]:
    """Yield one hit for each place at which ranks wait, a process of which has ended badly.

    Who waits at a queue or pipe is told nothing by its end. A pool starts new ones in its place.
    """
    waits = (WaitKind.QUEUE, WaitKind.FUTURE, WaitKind.POLL, WaitKind.FILE)
    for hit in lagging(case, *waits, only=lambda state: bool(_ended_below(case, state))):
        state = case.states[hit.members[0]]
        end = _ended_below(case, state)[0]
        evidence = cite(end.source, end.quote, case.member(state.member).rank)
        fields = {**hit.fields, "child": str(end.who.pid), "how": end.how, "trail": OUTPUT}
        if end.signal:
            fields |= {"trail": f"dmesg (oom-kill), {OUTPUT}, native code", "kernel": KERNEL_LOG}
        # one that failed by itself may be any program, of which nobody asked how it ended
        strength = hit.strength * (CLEAR if end.signal else INDIRECT)
        yield replace(hit, evidence=(evidence, *hit.evidence), fields=fields, strength=strength)


def _ended_below(case: Case, state: RankState) -> list[Exit]:
    """List the processes of a rank that ended by a signal or error, and that it has not missed."""
    place, member = state.place, case.member(state.member)
    if place is None or (place.kind is WaitKind.FILE and place.op != PIPE):
        return []
    return [
        row
        for row in case.job.exits
        if row.parent is not None
        and row.parent == member.pid
        and same_host(row.who.host, member.host)
        and (row.signal or row.exitcode)
    ]


AT_ONCE = 0.25
"""Seconds within which a pool starts all of its workers, at most."""

_FOR_WORK = frozenset({WaitKind.IDLE, WaitKind.QUEUE})


@side("lagging_for", reason="lost-task")
def _pool_task_lost(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that wait at one place for a task that no worker has."""
    for hit in lagging(case, WaitKind.FUTURE, op=PROCESS_POOL, only=_no_worker_has_it, alone=True):
        state = case.states[hit.members[0]]
        workers = _by_start(case, state)
        lateness = workers[-1][0] - workers[0][0] if workers else 0.0
        if lateness <= AT_ONCE:
            replaced = {"replaced": "", "cause": "was lost"}
            yield replace(hit, fields={**hit.fields, **replaced}, strength=hit.strength * INDIRECT)
            continue
        process = workers[-1][1]
        pid = process.who.pid
        quote = f"pid {pid} was started {lateness:.1f} s after the first worker"
        evidence = cite(process.source, quote, case.member(state.member).rank)
        replaced = {
            "replaced": f", and process {pid} was started in place of one that ended",
            "cause": "was lost with that one",
        }
        yield replace(hit, evidence=(evidence, *hit.evidence), fields={**hit.fields, **replaced})


def _no_worker_has_it(state: RankState) -> bool:
    places = [place for place in state.children if place is not None]
    return bool(places) and all(p.user is None and p.kind in _FOR_WORK for p in places)


def _by_start(case: Case, state: RankState) -> list[tuple[float, Process]]:
    """List the children of a rank by the times at which they were started, as far as known."""
    last = (child.processes[-1] for child in case.member(state.member).children if child.processes)
    started = ((process.started_at, process) for process in last)
    known = [(at, process) for at, process in started if at is not None]
    return sorted(known, key=lambda each: each[0])


@side("lagging_for", reason="forked-lock")
def _fork_deadlock(case: Case) -> Iterable[Hit]:
    """Return one hit for the ranks at one place, a forked process of which waits for a lock."""
    return merged(
        lagging(case, WaitKind.DATALOADER, only=_worker_wants_lock, alone=True),
        lagging(case, WaitKind.FUTURE, op="process-pool", only=_worker_wants_lock, alone=True),
        lagging(
            case,
            WaitKind.SUBPROCESS,
            only=lambda state: _worker_wants_lock(state) and _has_child_in(case, state, _FORK),
            alone=True,
        ),
    )


@side("lagging_for", reason="forked-openmp")
def _forked_openmp(case: Case) -> Iterable[Hit]:
    """Return hits for the ranks, a forked process of which waits for OpenMP threads.

    They lived in the parent and were not copied, so none comes to the team's barrier.
    """

    def waits_for_threads(state: RankState) -> bool:
        places = [place for place in state.children if place is not None]
        return any(p.op == OPENMP for p in places) and _has_child_in(case, state, _FORK)

    return merged(
        lagging(case, WaitKind.DATALOADER, only=waits_for_threads, alone=True),
        lagging(case, WaitKind.FUTURE, op=PROCESS_POOL, only=waits_for_threads, alone=True),
        lagging(case, WaitKind.SUBPROCESS, only=waits_for_threads, alone=True),
    )


_FORK = ("multiprocessing/popen_fork.py", "")
"""In whose frames a child goes on that was forked, instead of started anew."""
_LAST_PUT = ("multiprocessing/queues.py", "_finalize_join")
"""The function that waits until all that a process has put into a queue is taken."""


def _worker_wants_lock(state: RankState) -> bool:
    """Return whether a worker waits for a lock within its process: not one that processes share."""
    return any(
        place is not None
        and place.kind is WaitKind.LOCK
        and place.op != FILE_LOCK
        and not is_shared_lock(place)
        for place in state.children
    )


@side("lagging_for", reason="full-queue")
def _full_queue(case: Case) -> Iterable[Hit]:
    """Return one hit for the ranks at one place, a child of which has put what nobody takes."""
    full = functools.partial(_has_child_in, case, place=_LAST_PUT)
    return lagging(case, WaitKind.SUBPROCESS, only=full, alone=True)


@side("lagging_for", reason="full-pipes")
def _full_pipes(case: Case) -> Iterable[Hit]:
    """Return one hit for the ranks at one place that wait for a child, which writes in vain itself.

    The pipe that it writes to is full: it reads no more, nor answers, before somebody takes that.
    A rank that reads from it waits at another pipe, as of its output and not of its errors.
    """

    def waits_for_a_writer(state: RankState) -> bool:
        end, member = other_end(case, state), case.member(state.member)
        children = (h.processes[-1] for h in member.helpers if h.processes)
        fed = (p for p in children if end is not None and p.who.pid == end.pid)
        own = member.processes[-1:]
        return any(p.ppid == member.pid and _writes(p) and all(map(_at_pipe, own)) for p in fed)

    return lagging(case, WaitKind.FILE, op=PIPE, only=waits_for_a_writer, alone=True)


def _at_pipe(process: Process) -> bool:
    place = from_kernel(process.wchan)
    return place is not None and place.op == PIPE


def _writes(process: Process) -> bool:
    """Return whether a process waits in the kernel for room in a pipe."""
    return _at_pipe(process) and "write" in (process.wchan or "")


@side("lagging_for", reason="own-lock")
def _lock_deadlock(case: Case) -> Iterator[Hit]:
    """Yield one hit per rank whose main thread waits for a lock; two such threads are a cycle."""
    for hit in lagging(case, WaitKind.LOCK, WaitKind.GIL, alone=True):
        place = case.states[hit.members[0]].place
        if place is None or place.op == FILE_LOCK or place.main_op == EXIT:
            continue
        if is_shared_lock(place) and len(hit.members) > 1:
            continue
        everyone = len(hit.members) == len(case.states) > 1  # then none differs from the others
        moves = {case.states[number].motion.moved for number in hit.members}
        if everyone and moves <= {Moved.STIRRED, Moved.IN_PLACE}:
            continue  # who wakes up and waits again paces itself
        yield replace(hit, names_culprit=hit.names_culprit and not everyone)


@side("lagging_for", reason="shared-lock")
def _shared_lock(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that want the lock at one place."""
    for hit in lagging(case, WaitKind.LOCK, alone=True):
        wanting = [case.states[number] for number in hit.members]
        if len(wanting) > 1 and all(is_shared_lock(state.place) for state in wanting):
            yield _of_one_rank(case, hit, "has the lock", "wait for a lock that processes share")


def _has_child_in(case: Case, state: RankState, place: tuple[str, str]) -> bool:
    """Return whether a child of a rank has a frame in a file, and a function of that name there."""
    file, function = place
    return any(
        frame.file.endswith(file) and frame.function.endswith(function)
        for child in case.member(state.member).children
        for dump in child.dumps[-1:]
        for thread in dump.threads
        for frame in thread.frames
    )


@side("lagging_for", reason="unset-key")
def _unset_key(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that wait for a key at one place."""
    for hit in lagging(case, WaitKind.STORE, alone=True):
        wait = "waits" if len(hit.members) == 1 else "wait"
        wants = f"{wait} for a key of the store that nobody sets"
        its = _of_one_rank(case, hit, "has not set the key", wants)
        fewer = not hit.affected or len(hit.members) < len(hit.affected)
        names = hit.names_culprit and fewer and not case.job.missing
        yield replace(its, names_culprit=names) if its.members == hit.members else its


@side("lagging_for", reason="awaited-file")
def _awaited_file(case: Case) -> Iterator[Hit]:
    """Yield one hit for the one rank that may have to make the file that all others look for."""
    for hit in lagging(case, WaitKind.SLEEP, op=AWAITED_FILE):
        its = _of_one_rank(case, hit, "makes no file", "look for a file that nobody makes")
        if its.members != hit.members:
            yield replace(its, names_culprit=True)


def _of_one_rank(case: Case, hit: Hit, has: str, wants: str) -> Hit:
    """Say of ranks that want something that only a rank can give them which one it must be.

    Where all ranks but one want it and this one waits for them, it is that one; else nobody.
    """
    fields = {**hit.fields, "wanting": case.names(hit.members)}
    everyone = len(hit.members) + len(hit.affected) == len(case.states)
    if len(hit.members) < 2 or len(hit.affected) != 1 or not everyone:
        fields["says"] = f"{fields['wanting']} {wants}{fields['at']}{fields['waiting']}"
        return replace(hit, fields=fields, names_culprit=False)
    one = case.states[hit.affected[0]]
    fields |= subject_fields(case, [one], hit.members)
    fields["says"] = (
        f"{fields['who']} is {fields['does']}{fields['at']}, and so {has} that "
        f"{fields['wanting']} wait for"
    )
    return replace(
        hit,
        members=hit.affected,
        affected=hit.members,
        fields=fields,
        evidence=(*evidence_of(case, one)[:1], *hit.evidence),
        location=location_of(case, one),
        strength=INDIRECT,
    )

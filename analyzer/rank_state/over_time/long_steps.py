"""Ranks at work for which others wait: is their step as long as others, or without end.

From snapshot to snapshot both look alike: the rank runs through a few lines, and nobody gets an
answer. What tells them apart is how long this step has lasted, beside how long steps took before.
A step lasts at least as long as the waiting ranks have slept, or were seen to wait. Of the steps
before, their number is known from the loop counters of the ranks that wait, and their average is
at most what passed until then. Ranks that note their steps (``whyhang.heartbeat``) tell themselves
how long one took at most. Where nothing is known of them, a step counts as endless once it
has lasted longer than steps do as a rule.

Long evaluations last long as well, and print nothing. A rank that was seen to go round in loops
over a range or a container, and in no other, comes to their end: it counts as endless no sooner
than collectives give up. So does one that waits for a program of its own which computes, or
for a DataLoader's worker from which batches come: its own variables change. Where the logs of a job
tell the time, a step that lasts no longer than they have been silent before is none without end.
"""

from collections.abc import Iterable, Sequence

from whyhang.analyzer.facts import Frame, LoopCounter, Process, StackDump, replace
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.rank_state.over_time.beats import usual_step
from whyhang.analyzer.rank_state.over_time.job_progress import PLAIN, counted_on, progress
from whyhang.analyzer.rank_state.over_time.log_pauses import longest_pause
from whyhang.analyzer.rank_state.over_time.motion import (
    SQUEEZED,
    Moved,
    motion,
    motion_of_thread,
    python_frames,
)
from whyhang.analyzer.rank_state.state import IN_STEP, LongStep, RankState, Status, busy_worker
from whyhang.analyzer.stacks import LineText, WaitKind, source_lines
from whyhang.analyzer.stacks.source_blocks import ends, heads
from whyhang.analyzer.stacks.usercode import is_library, user_path

FACTOR = 3.0
"""A step is endless if it lasts so many times as long as those before it took on average."""

OF_PAUSES = 1.5
"""Times as long as the longest silence of the logs before it, a step or wait may last."""

LEAST = 5.0
"""Seconds that it lasts then, at least: on a busy machine a short step takes a while, too."""

LONG = 25.0
"""Seconds from which a step is taken to be endless where nothing is known of those before."""

GIVES_UP = 1800.0
"""Seconds after which gloo's collectives give up, unless told otherwise."""

WORKS = frozenset({WaitKind.WORK, WaitKind.DATASET, WaitKind.SLEEP})
"""Kinds of place at which a worker may be on its way."""

_AT_WORK = (Moved.ON, Moved.IN_PLACE)
_STARTING = frozenset({WaitKind.INIT, WaitKind.IMPORT})


def with_long_steps(job: Job, states: tuple[RankState, ...]) -> tuple[RankState, ...]:
    """Say of ranks at work how long their step lasts, and which of them run without end."""
    waiting = [s for s in states if s.status in IN_STEP and s.place is not None]
    shown = {s.member: _at_work(job, s) for s in states}
    working = {member: dumps for member, dumps in shown.items() if dumps is not None}
    if not waiting and len(working) == len(states) and all(map(busy_worker, states)):
        waiting = list(states)  # each for its own worker
    starting = any(s.kind in _STARTING for s in waiting)
    if not (waiting and working) or starting or progress(job, states) is not False:
        return states
    step = _long_step(job, states, waiting)
    if step is None:
        return states
    step = replace(step, pause=longest_pause(job))
    text = source_lines(job.excerpts)
    others = [_path(dump) for s in waiting for dump in job.members[s.member].dumps[-1:]]
    shared = {head for path in others for frame in path for head in heads(frame, text)}
    changing = counted_on(job)
    judged = []
    for state in states:
        dumps, changes = working.get(state.member), state.member in changing
        if dumps is None:
            judged.append(state)
            continue
        ending = {ends(head, text) for head in _loops(dumps, text, changing=changes) - shared}
        through_program = not dumps
        fed = busy_worker(state) is not None and changes
        bounded = through_program or fed or (True in ending and False not in ending)
        judged.append(_judged(job.members[state.member], state, replace(step, bounded=bounded)))
    return tuple(judged)


def needed(step: LongStep) -> float:
    """Return how many seconds a step lasts before it counts as endless."""
    if step.bounded:
        return GIVES_UP
    usual = LONG if step.usual is None else max(LEAST, FACTOR * step.usual)
    return max(usual, OF_PAUSES * (step.pause or 0.0))


def _loops(dumps: Sequence[StackDump], text: LineText, *, changing: bool) -> set[Frame]:
    """Return the lines that open the blocks in which a rank was seen to go round.

    They are those around the outermost frame that has moved: what is deeper was left meanwhile.
    At one line it goes round if its variables are ``changing``.
    """
    paths = [_path(dump) for dump in dumps]
    levels = list(zip(*paths, strict=False))
    moved = next((n for n, level in enumerate(levels) if len(set(level)) > 1), None)
    if moved is None and (changing or len({len(path) for path in paths}) > 1):
        moved = len(levels) - 1
    if moved is None or moved < 0 or len({(f.file, f.function) for f in levels[moved]}) != 1:
        return set()
    around = [  # one at the head of a loop is in it
        {*heads(frame, text), *((frame,) if ends(frame, text) is not None else ())}
        for frame in levels[moved]
    ]
    return set.intersection(*around).union(*(heads(level[0], text) for level in levels[:moved]))


def _path(dump: StackDump) -> list[Frame]:
    """Return the user's own frames of the main thread, outermost first."""
    return user_path(python_frames(dump))


def _at_work(job: Job, state: RankState) -> tuple[StackDump, ...] | None:
    """Return the stacks that show a rank at work: its own, or those of the worker it waits for.

    There are none of a program that it waits for; None is: not at work.
    """
    member, worker = job.members[state.member], busy_worker(state)
    if _works(state):
        return member.dumps
    if state.status is not Status.BLOCKED or IN_STEP & {*state.earlier}:
        return None
    if state.kind is WaitKind.SUBPROCESS:
        computes = (
            (motion_of_thread(p.pid or 0, p.dumps, p.processes).cpu or 0.0) > SQUEEZED
            for p in member.helpers
        )
        return () if any(computes) else None
    if worker is None:
        return None
    child = member.children[worker[0]]
    moves = motion(child.dumps, child.processes)
    naps = worker[1].kind is WaitKind.SLEEP and moves.moved is Moved.STIRRED
    # a read or write that takes the CPU is that of a compressed file, for one
    may_run = worker[1].kind in WORKS or (worker[1].kind is WaitKind.FILE and moves.spins)
    runs = may_run and (moves.moved in _AT_WORK or moves.squeezed)
    return child.dumps if runs or naps else None


def _works(state: RankState) -> bool:
    """Return whether a rank is at work on lines of its own, and was at every look."""
    if IN_STEP & {state.status, *state.earlier} or state.place is None or state.motion.file:
        return False
    if state.status is Status.MOVING:
        return state.motion.moved is Moved.ON
    sleeps = state.place.kind is WaitKind.SLEEP
    in_place = state.motion.moved is Moved.IN_PLACE
    return (in_place and sleeps) or ((in_place or state.motion.squeezed) and _ran(state))


def _ran(state: RankState) -> bool:
    return Status.RUNNING in {state.status, *state.earlier}


def _long_step(
    job: Job, states: Sequence[RankState], waiting: Sequence[RankState]
) -> LongStep | None:
    seen = [job.members[state.member].processes for state in waiting]
    times = [[p.taken_at for p in one if p.taken_at is not None] for one in seen]
    if not all(len(each) > 1 for each in times):
        return None
    watched = min(each[-1] - each[0] for each in times)
    slept = [_slept(s, processes) for s, processes in zip(waiting, seen, strict=True)]
    lasts = max(watched, min(slept))
    if (noted := _noted(states, lasts)) is not None:
        return noted
    steps = _steps(job, waiting)
    began = [p.started_at for one in seen for p in one[-1:] if p.started_at is not None]
    if steps < 2 or not began:
        return LongStep(lasts=lasts)
    usual = max(0.0, max(each[-1] for each in times) - lasts - min(began)) / steps
    if min(slept) < watched and lasts <= FACTOR * usual:
        return LongStep(lasts=lasts)  # since when they wait is not known, so the steps are not
    return LongStep(lasts=lasts, usual=usual, steps=steps)


def _noted(states: Sequence[RankState], lasts: float) -> LongStep | None:
    """Measure the step by what the ranks noted of their steps, if all have noted some."""
    pulses = [state.pulse for state in states]
    known = [pulse for pulse in pulses if pulse is not None and pulse.silent_for is not None]
    usual = usual_step(known)
    if usual is None or len(known) < len(pulses):
        return None
    silent = min(pulse.silent_for or 0.0 for pulse in known)
    steps = min(pulse.last.beats for pulse in known)
    return LongStep(lasts=max(lasts, silent), usual=usual, steps=steps)


def _slept(state: RankState, processes: Sequence[Process]) -> float:
    """Return how long a rank has slept in its wait; the first look at it ended its sleep."""
    first, last = processes[0], processes[-1]
    if state.motion.moved is not Moved.STILL or first.asleep_for is None:
        return 0.0
    return first.asleep_for + (last.taken_at or 0.0) - (first.taken_at or 0.0)


def _steps(job: Job, waiting: Iterable[RankState]) -> int:
    """Return how many steps the waiting ranks have done, by the counters of their loops.

    A rank that slept less often than that began to count elsewhere than at zero.
    """
    counted = job.by_member(LoopCounter)
    steps = []
    for member in {state.member for state in waiting} & counted.keys():
        counters = counted[member]
        named = [c.value for c in counters if c.name not in PLAIN]
        value = max(named) if named else counters[0].value if len(counters) == 1 else 0
        slept = job.members[member].processes[-1].before
        steps.append(0 if slept is None or value > slept.switches else value)
    return min(steps, default=0)


def _judged(member: Member, state: RankState, step: LongStep) -> RankState:
    step = replace(step, endless=step.lasts > needed(step))
    state = replace(state, step=step)
    if not step.endless:
        paused = step.lasts <= OF_PAUSES * (step.pause or 0.0)
        is_known = step.bounded or step.usual is not None or paused
        return replace(state, status=Status.MOVING) if is_known else state
    if state.status is not Status.MOVING and not _ran(state):
        return state  # it looks again after a nap, for what is not seen here
    silent = member.last.silent_for if member.last is not None else None
    if silent is not None and silent < step.lasts / 2:
        return replace(state, status=Status.MOVING)  # it prints what it does
    place = state.place
    if place is None:
        return state
    # It stands in the function whose lines it runs through at every look.
    loop = _common(tuple(python_frames(dump) for dump in member.dumps))
    kind = place.kind if state.status is Status.RUNNING else WaitKind.WORK
    return replace(
        state,
        place=replace(place, kind=kind, user=loop or place.user),
        status=Status.RUNNING,
        motion=replace(state.motion, moved=Moved.IN_PLACE),
    )


def _common(stacks: Sequence[tuple[Frame, ...]]) -> Frame | None:
    """Return the innermost frame of the user's own that is in all stacks, as the last one has it.

    Its callers stand at one line each; it may have come to another.
    """
    outward = [[f for f in reversed(stack) if not is_library(f)] for stack in stacks if stack]
    common = None
    for level in zip(*outward, strict=False):
        if len({(frame.file, frame.function) for frame in level}) > 1:
            break
        common = level[-1]
    return common

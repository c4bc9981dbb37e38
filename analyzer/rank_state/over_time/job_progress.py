"""Does the job as a whole go on? Read off ranks that came to a wait, left it, or were answered."""

from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer.facts import (
    LoopCounter,
    StepsWritten,
    StepsWrittenBefore,
    Variables,
    grouped,
    replace,
)
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.rank_state.over_time.motion import Moved
from whyhang.analyzer.rank_state.state import IN_STEP, RankState, Status
from whyhang.analyzer.stacks import Place, Scope, WaitKind
from whyhang.analyzer.stacks.kinds import AWAITED_FILE

ANSWERED = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.BACKWARD}
"""Waits that sleep until they are answered; a rendezvous or a group's creation polls."""
NAPS = ("hrtimer_nanosleep", "do_nanosleep", "common_nsleep")
"""Kernel functions of a wait that looks again after a nap: waking up is no answer."""
ASLEEP = ("futex", "do_futex")
"""Kernel functions of a wait that another thread ends, as gloo's is."""
_CONDITION = ("pthread_cond_wait", "pthread_cond_clockwait", "pthread_cond_timedwait")
INNERMOST = 4
"""Native frames from the innermost among which the sleep is."""

SLEEPS_PER_SECOND = 4
"""How often a thread that gets batches from its workers sleeps per second, at least."""

PLAIN = frozenset({"i", "j", "k", "it"})
"""Names that the loops of one step have as well."""

LOCKSTEP = 10
"""Steps that ranks must have counted between the snapshots before their counts are compared."""

MIN_SLEEPS = 1
"""Times that a thread must have gone to sleep between two snapshots to be seen to come and go.

One is enough where it used a CPU as well: a wait that has no end does either, not both."""


def status_by_place(place: Place) -> Status:
    """Return the status that a place alone implies."""
    if place.op == AWAITED_FILE and place.scope is Scope.MAYBE:
        return Status.MAYBE  # for files that the other ranks write
    if place.kind in {WaitKind.STORE, WaitKind.POLL, WaitKind.SLEEP}:
        # A key is no call that others could come to; an unknown wait in the user's own code
        # is taken for a local one, uncertain as its place says.
        return Status.BLOCKED
    if place.kind is WaitKind.WORK:
        return Status.RUNNING
    return {
        Scope.RANKS: Status.WAITING,
        Scope.MAYBE: Status.MAYBE,
        Scope.LOCAL: Status.BLOCKED,
        Scope.THREAD: Status.BLOCKED,
        Scope.IDLE: Status.IDLE,
        Scope.WORK: Status.RUNNING,
    }[place.scope]


def progress(job: Job, states: Sequence[RankState]) -> bool | None:
    """Return whether the job as a whole moves.

    A rank that waits for others and yet woke up between the snapshots has had an answer from them,
    unless its wait polls or spins; one that came to a wait or left it took part in a step.
    None: it was looked at once only, or nothing counted.
    """
    if any(s.motion.moved is Moved.ON and _took_part(s) for s in states) or job.of(StepsWritten):
        return True
    if _counts_between_naps(job, states):
        return True
    if states and in_lockstep(job).issuperset(s.member for s in states):
        return True
    waiting = [s for s in states if s.status in IN_STEP and s.place is not None]
    counted = counted_on(job)
    if any(_answered(s, job.members[s.member]) or s.member in counted for s in waiting):
        return True
    polls = all(s.op == AWAITED_FILE for s in states)
    if states and not (waiting or polls) and counted.issuperset(s.member for s in states):
        return True  # not of a loop that looks for a file: its variables are new at each turn
    members = [job.members[s.member].processes for s in waiting]
    messages = [{process.messages for process in looks[-2:]} for looks in members]  # of MPI
    if _next_step(waiting or states) or any(len(n) > 1 and None not in n for n in messages):
        return True
    still = any(s.motion.moved is Moved.STILL for s in waiting)
    if not still and any(_is_fed(s, job.members[s.member]) for s in states):
        return True
    unseen = any(s.motion.moved is Moved.UNKNOWN for s in states)
    return None if unseen or not states else False


def _counts_between_naps(job: Job, states: Sequence[RankState]) -> bool:
    """Return whether those that wait for no other rank sleep, and the log has counted before.

    Once, where all sleep; more than once, where others wait for them: the job may have come to its
    hang since.
    """
    held = [state for state in states if state.status not in IN_STEP]
    asleep = (s.kind is WaitKind.SLEEP for s in held)
    written = {step.text for step in job.of(StepsWrittenBefore)}
    least = 2 if len(held) < len(states) else 1
    return bool(held) and all(asleep) and len(written) >= least


def with_growing_counters(job: Job, states: Iterable[RankState]) -> list[RankState]:
    """Say of ranks that count their steps meanwhile that they go on.

    One that seems to sleep may count alone; one that runs in place may do so for ever.
    """
    growing = {
        member
        for member, counters in step_counters(job).items()
        if any(max(values) > min(values) for values in counters.values())
    }
    together = in_lockstep(job)

    def goes_on(state: RankState) -> bool:
        if state.status is Status.RUNNING:
            return state.member in together
        sleeps = state.status is Status.BLOCKED and state.kind is WaitKind.SLEEP
        return sleeps and state.member in growing

    return [
        replace(s, status=Status.MOVING, motion=replace(s.motion, moved=Moved.ON))
        if goes_on(s)
        else s
        for s in states
    ]


Counter = tuple[str, str, str]
"""The name of a variable, its function and file."""


def step_counters(job: Job) -> dict[int, dict[Counter, list[int]]]:
    """Return what the loops of each member counted, at each time; not what any loop may count."""
    return {
        member: {
            counter: [each.value for each in values]
            for counter, values in grouped(
                (fact for fact in facts if fact.name not in PLAIN),
                lambda fact: (fact.name, fact.function, fact.file),
            ).items()
        }
        for member, facts in job.by_member(LoopCounter).items()
    }


def counts_more(mine: Mapping[Counter, list[int]], its: Mapping[Counter, list[int]]) -> bool:
    """Return whether one member counts a step more than another, and nothing less."""
    common = [(values[-1], its[counter][-1]) for counter, values in mine.items() if counter in its]
    return any(a > b for a, b in common) and all(a >= b for a, b in common)


def in_lockstep(job: Job) -> frozenset[int]:
    """Return the members whose steps grow, and with them those of another one.

    Who waits for each other in every step counts alike, however long the job has run already;
    loops that know nothing of each other drift apart.
    """
    grown: dict[Counter, dict[int, list[int]]] = {}
    for member, counters in step_counters(job).items():
        for counter, values in counters.items():
            if values[-1] - values[0] >= LOCKSTEP:
                grown.setdefault(counter, {})[member] = values
    return frozenset(
        member
        for values_of in grown.values()
        for member, values in values_of.items()
        if any(_alike(values, of) for other, of in values_of.items() if other != member)
    )


def _alike(one: Sequence[int], other: Sequence[int]) -> bool:
    """Compare counts of the same times, of two processes that were not paused at once."""
    most = max(abs(a - b) for a, b in zip(one, other, strict=False))
    return len(one) == len(other) and most * 10 <= one[-1] - one[0]


def counted_on(job: Job) -> set[int]:
    """Return the members whose variables have changed from one time to another."""
    known = job.by_member(Variables)
    return {n for n, facts in known.items() if len({fact.checksum for fact in facts}) > 1}


def _next_step(states: Sequence[RankState]) -> bool:
    """Return whether one of these ranks has noted another step between the snapshots.

    Of ranks that wait one is enough: it had an answer. One that runs may count alone.
    """
    steps = [state.pulse.goes_on for state in states if state.pulse is not None]
    waits = any(state.status in IN_STEP for state in states)
    return any(steps) if waits else bool(steps) and all(steps)


def _took_part(state: RankState) -> bool:
    """Return whether a member that moved was in a step with the others in some snapshot."""
    now = state.place is not None and status_by_place(state.place) in IN_STEP
    return now or any(was in IN_STEP for was in state.earlier)


def _answered(state: RankState, member: Member) -> bool:
    """Return whether a wait for others has ended and begun anew between the snapshots.

    Such a wait sleeps until it is answered, so waking up is an answer, and so is another wait in
    its place. Some poll with naps, and some spin: who used a CPU and yet went to sleep time and
    again computes in between. Where a thread sleeps is read a moment before its stack: a nap may be
    one that the program takes elsewhere, and is none of a wait that was seen to sleep otherwise.
    """
    processes = member.processes
    if state.kind not in ANSWERED or state.status not in IN_STEP:
        return False
    places = [(process.wchan or "").lstrip("_") for process in processes]
    naps = any(place.startswith(NAPS) for place in places)
    if naps and not any(p.startswith(ASLEEP) for p in places) and not _sleeps_now(member):
        return False
    motion = state.motion
    if motion.moved not in {Moved.STIRRED, Moved.IN_PLACE}:
        return False
    if not motion.spins:
        return motion.moved is Moved.STIRRED or IN_STEP.issuperset(state.earlier)
    last = places[-1] if places else ""
    comes_and_goes = (motion.sleeps or 0) >= MIN_SLEEPS and last.startswith(ASLEEP)
    return comes_and_goes or _sleeps_now(member)


def _is_fed(state: RankState, member: Member) -> bool:
    """Return whether a wait for the DataLoader's workers ended many times between snapshots.

    Without a batch such a wait looks after its workers every 5 s (torch/utils/data/_utils:
    MP_STATUS_CHECK_INTERVAL) and sleeps in between.
    """
    times = [p.taken_at for p in member.processes if p.taken_at is not None]
    if state.kind is not WaitKind.DATALOADER or len(times) < 2:
        return False
    return (state.motion.sleeps or 0) > max(1.0, times[-1] - times[0]) * SLEEPS_PER_SECOND


def _sleeps_now(member: Member) -> bool:
    """Return whether the native stack, taken last, shows a sleep until another thread acts.

    Who used a CPU between the snapshots and sleeps so now has come to this wait since.
    """
    native = [frame.function for frame in member.main_frames() if frame.native]
    return any(name.startswith(_CONDITION) for name in native[:INNERMOST])

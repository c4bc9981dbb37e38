"""What the snapshots of a live job leave open: each function lists the members that do.

Whether it moves, how long a step lasts, whom a call means, what a stack does not show.
"""

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LoopCounter
from whyhang.analyzer.facts.calls import ROOTED
from whyhang.analyzer.queries.waits.moving import stragglers
from whyhang.analyzer.rank_state.over_time.job_progress import step_counters
from whyhang.analyzer.rank_state.over_time.log_pauses import longest_pause, silence
from whyhang.analyzer.rank_state.over_time.long_steps import OF_PAUSES, WORKS, needed
from whyhang.analyzer.rank_state.over_time.motion import Moved, motion
from whyhang.analyzer.rank_state.over_time.recent import (
    all_ended_meanwhile,
    ended_meanwhile,
    since_all_at_rest,
)
from whyhang.analyzer.rank_state.state import RankState, Status, busy_worker
from whyhang.analyzer.stacks import WaitKind, undecided

MOST_WATCHED = 30.0  # seconds, to learn whether a step comes to its end
YOUNG = 15.0  # seconds since its start within which a program may well come to its end
HALF = 0.5
WAITS = {Status.WAITING, Status.MAYBE}
RAN = {Moved.IN_PLACE, Moved.STIRRED}


def come_to_rest(case: Case) -> Sequence[int]:
    """List all ranks if the job has moved and all wait now, in different calls or without moving.

    It may have come to its hang between the snapshots, as one does that has just been started.
    """
    if not case.graph.progress or any(state.status not in WAITS for state in _seen(case)):
        return []
    differ = len(case.graph.operations) > 1
    return _everyone(case) if differ or since_all_at_rest(case.job, 2) is not None else []


def some_have_ended(case: Case) -> Sequence[int]:
    """List the ranks that have ended while others live on, of a job that may be at its end.

    At the end ranks end one after the other; what the last of them print may tell that it was
    planned.
    """
    over = ended_meanwhile(case.job)
    return [] if all_ended_meanwhile(case.job) else sorted(over)


def between_steps(case: Case) -> Sequence[int]:
    """List the members that hold the others up and may only have been caught in a long step.

    Of a job that moves, whoever is late; else those in what ends by itself.
    """
    if case.graph.progress and case.graph.lagging:
        return case.graph.lagging
    return late_but_on_the_way(case)


def at_work_or_asleep(case: Case) -> list[int]:
    """List all ranks if none waits for another, but all compute or all sleep by turns."""
    if case.graph.progress:
        return []
    # Of those that compute, or their workers, a step may take longer than a snapshot.
    return _everyone(case) if all(map(_runs, _seen(case))) else all_asleep(case)


def late_but_on_the_way(case: Case) -> list[int]:
    """List the ranks that others wait for and that are in what ends by itself.

    They run or sleep, or their DataLoader's worker does: a step may take longer than two snapshots.
    Or they woke up: whether once, or for one answer after the other, further snapshots tell.
    """
    starting = all(meeting.kind is WaitKind.INIT for meeting in case.graph.operations)

    def ends_by_itself(state: RankState) -> bool:
        if state.status in {Status.MOVING, Status.STOPPED, Status.GONE}:
            return False
        worker = busy_worker(state)
        places = [state.place, worker[1] if worker is not None else None]
        return (
            state.status is Status.RUNNING
            or (state.status is Status.BLOCKED and state.motion.moved is Moved.STIRRED)
            or any(p is not None and p.kind in {WaitKind.SLEEP, WaitKind.WORK} for p in places)
            or (starting and state.motion.moved in RAN)
        )

    if not case.graph.operations:
        return []
    return [number for number in case.graph.lagging if ends_by_itself(case.states[number])]


def asleep_by_turns(case: Case) -> list[int]:
    """List the ranks that others wait for and that sleep, but ran in between, and who waits.

    They may poll for something, or be in a loop that goes on without the others; or their step
    takes naps. One that spins in its wait for them shows by its variables alone that it had an
    answer.
    """
    if case.graph.progress or not case.graph.operations:
        return []
    lagging = [case.states[number] for number in case.graph.lagging]
    blocked = (s for s in lagging if s.status is Status.BLOCKED and s.motion.moved in RAN)
    asleep = [s.member for s in blocked if s.place and s.place.kind is WaitKind.SLEEP]
    return [*asleep, *case.graph.waiting] if asleep else []


def until_a_sleep_ends(case: Case) -> list[int]:
    """List who sleeps at every look and wakes up within the time that a job is watched.

    Of those that others wait for, or of all. What it does then tells a pace from a hang. Who waits
    for a program that has just been started sleeps until that ends.
    """
    watched = [case.states[number] for number in case.graph.lagging]
    if not case.graph.operations:
        watched = list(case.states)
    still = (s for s in watched if s.motion.moved is Moved.STILL and not case.graph.progress)
    on_their_own = (s for s in still if s.status is not Status.STOPPED)  # it does not wake up
    return [
        s.member for s in on_their_own if _wakes_up(case, s) or _awaits_a_young_program(case, s)
    ]


def _wakes_up(case: Case, state: RankState) -> bool:
    processes = case.member(state.member).processes
    ends = [p.threads[0].sleeps_for for p in processes if p.threads]
    known = [end for end in ends if end is not None]
    return len(ends) > 1 and bool(known) and known[0] < MOST_WATCHED


def _awaits_a_young_program(case: Case, state: RankState) -> bool:
    if state.place is None or state.place.kind is not WaitKind.SUBPROCESS:
        return False
    member = case.member(state.member)
    last = [helper.processes[-1] for helper in member.helpers if helper.processes]
    ages = [
        p.taken_at - p.started_at
        for p in last
        if p.ppid == member.pid and p.taken_at is not None and p.started_at is not None
    ]
    return min(ages, default=YOUNG) < YOUNG


def still_beside_others(case: Case) -> list[int]:
    """List all ranks if the job moves, and one that waits did not run at all meanwhile.

    Not once the steps of such a rank were counted.
    """
    still = {s.member for s in case.states if s.status in WAITS and s.motion.moved is Moved.STILL}
    uncounted = not still <= step_counters(case.job).keys()
    return _everyone(case) if uncounted and case.graph.progress is True else []


def with_uncounted_steps(case: Case) -> Sequence[int]:
    """List the ranks that wait while another is at work, if their steps were not counted yet."""
    if case.job.of(LoopCounter) or all(state.step is None for state in case.states):
        return []
    return (*case.graph.waiting, *case.graph.maybe)


def in_an_endless_step(case: Case) -> list[int]:
    """List the ranks whose step seems to have no end, to see whether their variables change."""
    return [s.member for s in case.states if s.step is not None and s.step.endless]


def awaiting_a_worker_at_work(case: Case) -> list[int]:
    """List the ranks whose step seems to have no end, if a worker of theirs is at work.

    It may make a batch every few seconds, at which their variables change.
    """
    return [n for n in in_an_endless_step(case) if busy_worker(case.states[n]) is not None]


def with_a_long_step(case: Case) -> Sequence[int]:
    """List the ranks that wait for one of which more watching can tell that its step has no end."""
    steps = [state.step for state in case.states if state.step is not None]
    if any(not s.endless and needed(s) - s.lasts < MOST_WATCHED for s in steps):
        return (*case.graph.waiting, *case.graph.maybe) or [s.member for s in case.states]
    return []


_ANSWERED_FROM_OUTSIDE = frozenset({WaitKind.NETWORK, WaitKind.FILE, WaitKind.SUBPROCESS})


def within_its_pauses(case: Case) -> Sequence[int]:
    """List the ranks that wait for one whose answer comes from outside the program.

    As long as the job's logs have been silent for no longer than they were before, while it worked:
    a checkpoint that is sent away takes as long each time.
    """
    late = [case.states[number] for number in case.graph.lagging]
    if case.graph.progress or not any(s.kind in _ANSWERED_FROM_OUTSIDE for s in late):
        return []
    pause, silent = longest_pause(case.job), silence(case.job)
    if pause is None or silent is None or not 0 < OF_PAUSES * pause - silent < MOST_WATCHED:
        return []
    return (*case.graph.waiting, *case.graph.maybe)


def _runs(state: RankState) -> bool:
    worker = busy_worker(state)
    runs = state.status in {Status.RUNNING, Status.MOVING}
    return runs or (worker is not None and worker[1].kind in WORKS)


def all_asleep(case: Case) -> list[int]:
    """List all ranks if all sleep a while and ran in between, as in a step that paces itself.

    Or wait for an event with a limit, which no other thread of theirs may be meant to set.
    """
    kinds = {WaitKind.SLEEP, WaitKind.LOCK}
    naps = (s.place and s.place.kind in kinds and s.motion.moved in RAN for s in _seen(case))
    return _everyone(case) if all(naps) else []


def with_a_peer(case: Case) -> list[int]:
    """List the ranks whose call names another rank, in a job where nobody is late.

    Sends and receives, broadcasts and their like. Who is late is the cause without that.
    """
    if case.graph.progress or case.graph.lagging:
        return []
    meetings = (m for m in case.graph.operations if m.kind is WaitKind.P2P or m.op in ROOTED)
    return [number for meeting in meetings for number in meeting.members]


def all_in_collectives(case: Case) -> list[int]:
    """List all ranks if all wait in collectives, though perhaps in different steps."""
    seen = _seen(case)
    if case.graph.progress or len(seen) < 2:
        return []
    return _everyone(case) if all(state.status in WAITS for state in seen) else []


def in_different_steps(case: Case) -> list[int]:
    """List all ranks if all wait and their loops count differently, as was read but once.

    The counters of ranks are not read in one moment, and where packets are lost, one rank comes out
    of a collective seconds before another.
    """
    if not all_in_collectives(case):
        return []
    counters = step_counters(case.job)
    values: dict[object, set[int]] = defaultdict(set)
    for of_member in counters.values():
        if any(len(read) > 1 for read in of_member.values()):
            return []
        for counter, read in of_member.items():
            values[counter] |= {*read}
    return _everyone(case) if any(len(read) > 1 for read in values.values()) else []


def with_open_stacks(case: Case) -> list[int]:
    """List the ranks whose Python stack leaves open what they wait for.

    A job that moves is not paused for so long, and a rank that is stopped waits to be let go on.
    """
    running = (s for s in case.states if s.status is not Status.STOPPED and not case.graph.progress)
    return [s.member for s in running if s.place is not None and undecided(s.place)]


def with_a_stuck_worker(case: Case) -> list[int]:
    """List the ranks that wait for a worker which stands at one place of a dataset or a task.

    What it waits for there, in native code or for a lock, its Python stack leaves open.
    """

    def is_stuck(number: int) -> bool:
        worker = busy_worker(case.states[number])
        if worker is None or worker[1].native:
            return False
        if worker[1].certain and worker[1].kind is not WaitKind.DATASET:
            return False
        child = case.member(number).children[worker[0]]
        return motion(child.dumps, child.processes).moved is not Moved.ON

    lagging = () if case.graph.progress else case.graph.not_waiting
    return [number for number in lagging if is_stuck(number)]


def with_a_slow_rank(case: Case) -> list[int]:
    """List all ranks if the job moves and the same ranks lagged in half of the snapshots.

    On a busy machine that happens by chance: of three ranks, one is last in four snapshots of five
    in one case of seven, at eight of ten in one of a hundred. And who is slow for certain may have
    been caught twice in its short wait.
    """
    return _everyone(case) if stragglers(case, share=HALF) else []


def _everyone(case: Case) -> list[int]:
    return [state.member for state in _seen(case)]


def _seen(case: Case) -> list[RankState]:
    """List the ranks that were looked at; of others a log may tell, and numbers that are over."""
    return [state for state in case.states if state.status is not Status.UNSEEN]

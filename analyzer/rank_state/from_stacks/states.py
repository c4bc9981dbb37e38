"""The state of each rank as its stacks and its process show it."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import program, replace
from whyhang.analyzer.job.records import Child, Job, Member, lock_holder
from whyhang.analyzer.rank_state.from_stacks.served import awaits_another, is_served
from whyhang.analyzer.rank_state.over_time.job_progress import ANSWERED, status_by_place
from whyhang.analyzer.rank_state.over_time.motion import (
    Motion,
    Moved,
    motion,
    motion_of_thread,
    python_frames,
)
from whyhang.analyzer.rank_state.state import IN_STEP, NOT_WAITING, RankState, Status
from whyhang.analyzer.stacks import LineText, Place, PlaceOf, WaitKind
from whyhang.analyzer.stacks.kinds import SERVES
from whyhang.analyzer.stacks.usercode import is_library, short

_OWN_CODE = frozenset({WaitKind.DATASET, WaitKind.CHECKPOINT})
"""Kinds of place that tell on whose behalf a thread is there, and not whether it waits."""


def without_bystanders(job: Job, states: list[RankState]) -> tuple[RankState, ...]:
    """Take processes that only look like ranks out of the wait graph.

    A dump of everything on a host also holds servers and controllers. Ranks of one job enter
    the program at one place; a process without a rank number that entered elsewhere than all
    who wait for ranks is none of them. A stack that is cut short does not tell where it entered.
    """
    entries = {_entry(job.members[s.member]) for s in states if s.status in IN_STEP}
    if not entries or "" in entries:
        return tuple(states)
    return tuple(
        replace(state, status=Status.IDLE)
        if state.status not in IN_STEP
        and job.members[state.member].rank is None
        and _entry(job.members[state.member]) not in {"", *entries}
        else state
        for state in states
    )


def with_waits_for_setters(states: tuple[RankState, ...]) -> tuple[RankState, ...]:
    """Take a wait for a key of the store as a wait for a rank, where one is free to set it.

    Who waits in a collective sets no key; then the wait for the key holds all up. A rank that
    waits for nobody, or has ended, may be the one that should set it. So may it be the one whose
    call should set what another call waits for on the rank that serves both: if that has come to
    the end of its program, it calls no more, and is not the one that waits.
    """
    keys = {s.member for s in states if s.place is not None and _is_set_by_others(s.place)}
    serves = any(s.place is not None and s.place.main_op == SERVES for s in states)
    free = [state for state in states if state.member not in keys]
    done = {state.member for state in free if serves and _calls_no_more(state.place)}
    if not done and not any(state.status in NOT_WAITING for state in free):
        return states
    return tuple(
        _taken_for(Status.WAITING, Status.BLOCKED, state)
        if state.member in keys
        else _taken_for(Status.BLOCKED, Status.WAITING, state)
        if state.member in done
        else state
        for state in states
    )


def _calls_no_more(place: Place | None) -> bool:
    """Return whether a rank is in RPC's meeting of all workers, to which programs come at last."""
    frame = place.frame if place is not None and place.kind is WaitKind.COLLECTIVE else None
    return frame is not None and frame.file.endswith("torch/distributed/rpc/api.py")


def _is_set_by_others(place: Place) -> bool:
    served = place.main_op == SERVES and place.kind is WaitKind.LOCK
    event = served and place.frame is not None and place.frame.file.endswith("threading.py")
    return place.kind is WaitKind.STORE or event


def _taken_for(status: Status, seen: Status, state: RankState) -> RankState:
    """Return a state with another status than was ``seen``, now and before."""
    if state.status is not seen:
        return state
    earlier = tuple(status if was is seen else was for was in state.earlier)
    return replace(state, status=status, earlier=earlier)


def _entry(member: Member) -> str:
    """Name the function through which a process entered its program, if its stack tells."""
    python = [frame for frame in member.main_frames() if not frame.native]
    if not python or python[-1].function != "<module>":
        return ""
    own = next((frame for frame in reversed(python) if not is_library(frame)), None)
    return f"{own.function} ({short(own.file)})" if own is not None else ""


def state_from_stacks(
    job: Job,
    member: Member,
    place_of: PlaceOf,
    line_text: LineText,
    unseen: Place | None = None,
) -> RankState:
    """Place one member; ``unseen`` is its place if there is no stack."""
    snapshots = sorted({dump.look for dump in member.dumps})
    places = _at_equal_depth(
        member, {look: _place_at(member, look, place_of) for look in snapshots}
    )
    moves = motion(member.dumps, member.processes, line_text)
    passed = [places[snapshot] for snapshot in snapshots[:-1]]
    passed += _before_the_native(member, snapshots, place_of)
    earlier = tuple(status_by_place(place) for place in passed)
    in_step = _in_and_out([*passed, *(places[snapshot] for snapshot in snapshots[-1:])])
    if moves.moved is Moved.IN_PLACE and len(in_step) > 1:
        # A training loop is one function: to come to a collective, or out of it, is to go on.
        moves = replace(moves, moved=Moved.ON)
    place = places[snapshots[-1]] if snapshots else unseen
    if place is not None and place.through and place.tid:
        its = motion_of_thread(place.tid, member.dumps, member.processes)
        moves = moves if its.moved is Moved.UNKNOWN else its
    status = _status(member, place, moves)
    children = tuple(child_place(child, place_of) for child in member.children)
    if status is Status.BLOCKED and lock_holder(job, member) is not None:
        status = Status.WAITING  # on the rank that holds the lock
    if status is Status.IDLE and member.rank is not None and place and place.user is not None:
        # A rank in an event loop of its own is in no collective, unless it serves requests.
        place, status = replace(place, certain=False), Status.BLOCKED
        earlier = tuple(Status.BLOCKED if was is Status.IDLE else was for was in earlier)
    if status is Status.BLOCKED and place is not None:
        if awaits_another(member, place, moves):
            moves, status = replace(moves, moved=Moved.ON), Status.MOVING
        elif is_served(member, place, children, moves):
            status = Status.MOVING
    return RankState(
        member=member.id,
        place=place,
        motion=moves,
        status=status,
        stopped_by=_stopped_by(member),
        earlier=earlier,
        children=children,
    )


def _at_equal_depth(member: Member, places: dict[int, Place]) -> dict[int, Place]:
    """Use a native stack for the other snapshots of the same Python stack, which have none.

    Native stacks are taken at one snapshot. "Running" in one and "in an MPI call" in the next,
    both at one line, is the same place seen twice, and no step from one to the other.
    """
    if len({place.native for place in places.values()}) < 2:
        return places
    stacks = {dump.look: python_frames(dump) for dump in member.dumps}
    deep = {stacks[snapshot]: place for snapshot, place in places.items() if place.native}
    return {
        snapshot: replace(deep.get(stacks[snapshot], place), stopped=place.stopped)
        for snapshot, place in places.items()
    }


def _in_and_out(places: Sequence[Place]) -> set[bool]:
    """Return whether these places are in a step with other ranks: both, where it came or went.

    Of a wait that only native frames show, a Python stack that leaves its place open may have been
    in it as well; not one that runs at another line, where the wait sleeps until it is answered.
    """
    steps = {place: status_by_place(place) in IN_STEP for place in places}
    hidden = [p for p in steps if steps[p] and p.frame is not None and p.frame.native]
    return {
        steps[p]
        for p in steps
        if p.native or p.certain or all(_runs_elsewhere(p, wait) for wait in hidden)
    }


def _runs_elsewhere(place: Place, wait: Place) -> bool:
    sleeps = wait.kind in ANSWERED and place.kind is WaitKind.WORK
    return sleeps and None not in {place.user, wait.user} and place.user != wait.user


def _place_at(member: Member, snapshot: int, place_of: PlaceOf) -> Place:
    """Classify one snapshot; a native stack of the same snapshot knows more than a plain one."""
    dumps = [dump for dump in member.dumps if dump.look == snapshot]
    native = [d for d in dumps if any(f.native for t in d.threads for f in t.frames)]
    return place_of((native or dumps)[-1], member.process_at(snapshot))


def _before_the_native(
    member: Member, snapshots: Sequence[int], place_of: PlaceOf
) -> Iterator[Place]:
    """Place a plain stack of the last snapshot that the native one, a moment later, has left."""
    dumps = [dump for dump in member.dumps if snapshots and dump.look == snapshots[-1]]
    if len(dumps) > 1 and python_frames(dumps[0]) != python_frames(dumps[-1]):
        yield place_of(dumps[0], member.last)


def child_place(child: Child, place_of: PlaceOf) -> Place | None:
    """Place a worker or a launcher; None where there is no stack of it."""
    return place_of(child.dumps[-1], child.last) if child.dumps else None


def _status(member: Member, place: Place | None, moves: Motion) -> Status:
    last = member.last
    if last is not None and (last.dead or last.stopped):
        return Status.GONE if last.dead else Status.STOPPED
    state = last.state if last is not None else None
    if place is None:
        return Status.BLOCKED if state == "D" else Status.UNSEEN
    if (moves.moved is Moved.ON or moves.file) and status_by_place(place) not in IN_STEP:
        return Status.MOVING
    if place.kind is WaitKind.FILE and moves.spins:
        return Status.RUNNING  # who uses a CPU gets the data that it asks for
    if place.kind in _OWN_CODE and (moves.moved is Moved.IN_PLACE or moves.squeezed):
        return Status.RUNNING  # the user's own code: what waits in there is a kind of its own
    if place.kind is WaitKind.BACKWARD and moves.moved is Moved.STILL:
        return Status.WAITING  # a backward that uses no CPU at all waits in a collective
    if place.kind is WaitKind.BACKWARD and state == "R" and moves.spins:
        if moves.moved is Moved.ON:
            return Status.MOVING
        if place.native:
            return Status.RUNNING  # in no call that waits, by its native stack: it computes
    return status_by_place(place)


def _stopped_by(member: Member) -> str:
    last = member.last
    if last is not None and last.frozen is not None:
        return f"frozen with its control group {last.frozen}"
    if last is not None and last.tracer_pid is not None:
        return f"stopped by a debugger ({program(last.tracer or 'process')}, pid {last.tracer_pid})"
    return "stopped by a signal"

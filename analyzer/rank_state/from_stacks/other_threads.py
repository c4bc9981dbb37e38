"""Jobs whose main threads do not tell who is late: another thread of each rank does.

Some frameworks train on a thread of their own, and the main thread sleeps, or waits for an event,
until that ends. Where the main threads of all ranks do so in one function, and no rank is seen to
wait for others, each rank gets the place of the thread that was started in the same way as one
that waits for other ranks.

And the main threads of all may wait for other ranks while threads of theirs do as well: writers of
asynchronous checkpoints, for one. A rank whose thread is held by something of its own, while the
same thread of others waits for ranks, gets the place of that thread: its main thread is one of
those that are held up. Where none is held, both threads wait for ranks, which is kept.

A thread that a main thread waits for and that stands just so on ranks which wait for others (a
heartbeat between two beats) holds nobody up: such a rank is where its main thread stands.
"""

from collections import Counter
from collections.abc import Iterable

from whyhang.analyzer.facts import Frame, Process, Record, Thread, replace
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.rank_state.over_time.job_progress import status_by_place
from whyhang.analyzer.rank_state.over_time.motion import Motion, Moved
from whyhang.analyzer.rank_state.state import IN_STEP, RankState, Status
from whyhang.analyzer.stacks import Place, PlacesOf, Scope, WaitKind
from whyhang.analyzer.stacks.kinds import EXIT, FILE_LOCK
from whyhang.analyzer.stacks.usercode import is_library, user_frame

_Entry = tuple[str, str]
_HARMLESS = frozenset({WaitKind.SLEEP, WaitKind.IDLE, WaitKind.QUEUE, WaitKind.LOCK})
_STARTERS = ("threading.py", "concurrent/futures/thread.py")


class _Actor(Record):
    """A thread of a member beside its main thread: how it was started, and its place.

    ``entry`` is the function of the user's own in which it began, ``role`` the first function
    beyond what starts threads, whosever it is.
    """

    entry: _Entry | None
    role: _Entry | None
    place: Place
    moved: bool


def place_by_working_threads(
    job: Job, states: Iterable[RankState], places_of: PlacesOf
) -> list[RankState]:
    """Place ranks by their working threads, where the main threads of all only wait for these."""
    states = list(states)
    ranked = [s for s in states if job.members[s.member].rank is not None]
    if not any(job.members[s.member].dumps for s in ranked):  # Ray's workers may have no number
        ranked = [s for s in states if job.members[s.member].dumps]
    if len(ranked) < 2:
        return states
    if all(s.status is Status.WAITING for s in ranked):
        actors = {s.member: _actors(job.members[s.member], places_of) for s in ranked}
        return [_behind_its_like(_with_waits_beside(s, actors), actors) for s in states]
    spots = {(user.function, user.file) if (user := s.user) else None for s in ranked}
    if len(spots) != 1 or not all(map(_waits_locally, ranked)):
        return states
    actors = {s.member: _actors(job.members[s.member], places_of) for s in ranked}
    waiting = Counter(
        entry
        for threads in actors.values()
        for entry in {a.entry for a in threads if a.entry is not None and _waits_for_ranks(a)}
    )
    if not waiting:
        return states
    entry = waiting.most_common(1)[0][0]
    return [_moved_to(s, [a for a in actors.get(s.member, []) if a.entry == entry]) for s in states]


def place_by_main_threads(
    job: Job, states: Iterable[RankState], places_of: PlacesOf
) -> list[RankState]:
    """Place ranks by their main threads, where the thread that these wait for is as on others."""
    states = list(states)
    usual = {
        _site(user_frame(thread.frames))
        for state in states
        if state.status in IN_STEP and (state.place is None or not state.place.through)
        for dump in job.members[state.member].dumps[-1:]
        for thread in dump.threads
        if thread is not main_thread(dump)
    }
    return [
        _at_main_thread(job.members[state.member], state, places_of)
        if state.place is not None and _idles(state.place) and _site(state.user) in usual
        else state
        for state in states
    ]


def _idles(place: Place) -> bool:
    """Return whether the thread that a main thread waits for does nothing, as between two beats.

    At exit it is the thread that should end; and one that reads or writes is held by what it does.
    """
    waits = place.kind in _HARMLESS and place.op != FILE_LOCK
    return bool(place.through) and waits and place.main_op != EXIT


def _at_main_thread(member: Member, state: RankState, places_of: PlacesOf) -> RankState:
    main = main_thread(member.dumps[-1])
    own = next(place for thread, place in _placed_threads(member, places_of) if thread is main)
    if state.place is None or state.place.tid == own.tid:
        return state
    return replace(state, place=own, status=status_by_place(own))


def _site(frame: Frame | None) -> tuple[str, str, int | None] | None:
    return None if frame is None else (frame.file, frame.function, frame.line)


def _with_waits_beside(state: RankState, actors: dict[int, list[_Actor]]) -> RankState:
    """Note which other threads of a rank wait for other ranks as its main thread does.

    Not the one that the main thread waits for.
    """
    awaited = state.place.tid if state.place is not None else None
    own = (actor for actor in actors.get(state.member, []) if actor.place.tid != awaited)
    waits = (actor for actor in own if _waits_for_ranks(actor))
    return replace(state, beside=tuple(actor.place for actor in waits))


def _behind_its_like(state: RankState, actors: dict[int, list[_Actor]]) -> RankState:
    """Place a rank by its thread that is held, where the same thread of another waits for ranks."""
    own = actors.get(state.member, [])
    awaited = {
        actor.role
        for member, threads in actors.items()
        for actor in threads
        if member != state.member and actor.role is not None and _waits_for_ranks(actor)
    }
    held = [a for a in own if a.role in awaited and _is_held(a)]
    alone = len(held) == 1 and [a.role for a in own].count(held[0].role) == 1
    return _moved_to(state, held) if alone else state


def _waits_for_ranks(actor: _Actor) -> bool:
    return actor.place.scope is Scope.RANKS and actor.place.certain


def _is_held(actor: _Actor) -> bool:
    """Return whether a thread waits for something of its own process or host, and not for work."""
    place = actor.place
    waits = place.scope is Scope.LOCAL and place.kind is not WaitKind.QUEUE
    return waits and place.user is not None and not actor.moved


def _waits_locally(state: RankState) -> bool:
    """Return whether a main thread waits for its own process; a loop that idles may wake for it."""
    if state.kind is WaitKind.IDLE:
        return True
    statuses = {state.status, *state.earlier}
    return statuses <= {Status.BLOCKED, Status.IDLE} and not statuses & IN_STEP


def _placed_threads(member: Member, places_of: PlacesOf) -> list[tuple[Thread, Place]]:
    """Return the threads in the last stacks of a member, each with its place."""
    last = member.dumps[-1]
    places = places_of(last, member.process_at(last.look))
    return [*zip(last.threads, places, strict=True)]


def _actors(member: Member, places_of: PlacesOf) -> list[_Actor]:
    if not member.dumps:
        return []
    main = main_thread(member.dumps[-1])
    before = {t.tid: t for t in member.dumps[0].threads} if len(member.dumps) > 1 else {}
    actors = []
    for thread, place in _placed_threads(member, places_of):
        if thread is not main:
            moved = _moved(before.get(thread.tid), thread, member.processes)
            python = [frame for frame in reversed(thread.frames) if not frame.native]
            entry = _first(frame for frame in python if not is_library(frame))
            role = _first(frame for frame in python if not frame.file.endswith(_STARTERS))
            actors.append(_Actor(entry=entry, role=role, place=place, moved=moved))
    return actors


def _first(frames: Iterable[Frame]) -> _Entry | None:
    return next(((frame.function, frame.file) for frame in frames), None)


def _moved(before: Thread | None, now: Thread, processes: tuple[Process, ...]) -> bool:
    if before is not None and before.frames != now.frames:
        return True
    used = {
        t.cpu_ticks
        for process in processes
        for t in process.threads
        if t.tid == now.tid and t.cpu_ticks is not None
    }
    return len(used) > 1


def _moved_to(state: RankState, actors: list[_Actor]) -> RankState:
    if len(actors) != 1:
        return state
    place = actors[0].place
    doing = state.place.says if state.place is not None else "waiting"
    through = f'on thread "{place.thread or place.tid}" while the main thread is {doing}'
    moved = Moved.ON if actors[0].moved else Moved.UNKNOWN
    now = status_by_place(place)
    return replace(
        state,
        place=replace(place, through=place.through or through),
        status=Status.MOVING if actors[0].moved and now not in IN_STEP else now,
        motion=Motion(moved=moved),
        earlier=(),
    )

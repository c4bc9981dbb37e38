"""Jobs whose main threads only wait: the work, and the waits for other ranks, are elsewhere.

Some frameworks train on a thread of their own, and the main thread sleeps, or waits for an event,
until that ends. Where the main threads of all ranks do so in one function, and no rank is seen to
wait for others, each rank gets the place of the thread that was started in the same way as one
that waits for other ranks.
"""

from collections import Counter
from collections.abc import Iterable

from whyhang.analyzer.facts import Frame, Process, Record, Thread, replace
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.rank_state.motion import Motion, Moved
from whyhang.analyzer.rank_state.progress import IN_STEP, status_by_place
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import LineText, Place, Scope, WaitRule, places_of
from whyhang.analyzer.stacks.usercode import is_library

_Entry = tuple[str, str]


class _Actor(Record):
    """A thread of a member beside its main thread: how it was started, and its place."""

    entry: _Entry
    place: Place
    moved: bool


def place_by_working_threads(
    job: Job, states: Iterable[RankState], rules: tuple[WaitRule, ...], line_text: LineText
) -> list[RankState]:
    """Place ranks by their working threads, where the main threads of all only wait for these."""
    states = list(states)
    ranked = [s for s in states if job.members[s.member].rank is not None]
    if not any(job.members[s.member].dumps for s in ranked):  # Ray's workers may have no number
        ranked = [s for s in states if job.members[s.member].dumps]
    if (
        len(ranked) < 2
        or len({_spot(s) for s in ranked}) != 1
        or not all(map(_waits_locally, ranked))
    ):
        return states
    actors = {s.member: _actors(job.members[s.member], rules, line_text) for s in ranked}
    waiting = Counter(
        entry
        for threads in actors.values()
        for entry in {a.entry for a in threads if a.place.scope is Scope.RANKS and a.place.certain}
    )
    if not waiting:
        return states
    entry = waiting.most_common(1)[0][0]
    return [_moved_to(s, [a for a in actors.get(s.member, []) if a.entry == entry]) for s in states]


def _waits_locally(state: RankState) -> bool:
    statuses = {state.status, *state.earlier}
    return statuses <= {Status.BLOCKED, Status.IDLE} and not statuses & IN_STEP


def _spot(state: RankState) -> _Entry | None:
    user = state.place.user if state.place is not None else None
    return (user.function, user.file) if user is not None else None


def _actors(member: Member, rules: tuple[WaitRule, ...], line_text: LineText) -> list[_Actor]:
    if not member.dumps:
        return []
    last = member.dumps[-1]
    process = next((p for p in reversed(member.processes) if p.look == last.look), None)
    main = main_thread(last)
    before = {t.tid: t for t in member.dumps[0].threads} if len(member.dumps) > 1 else {}
    actors = []
    for thread, place in zip(last.threads, places_of(last, process, rules, line_text), strict=True):
        entry = _entry(thread.frames)
        if thread is not main and entry is not None:
            moved = _moved(before.get(thread.tid), thread, member.processes)
            actors.append(_Actor(entry=entry, place=place, moved=moved))
    return actors


def _entry(frames: tuple[Frame, ...]) -> _Entry | None:
    """Name the function of the user's own in which a thread began."""
    own = next((f for f in reversed(frames) if not f.native and not is_library(f)), None)
    return (own.function, own.file) if own is not None else None


def _moved(before: Thread | None, now: Thread, processes: tuple[Process, ...]) -> bool:
    """Return whether a thread went on: another stack, or it used a CPU."""
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

"""Line the ranks up: where each stands, who waits, and whom the waiting ones wait for.

This is the reading of the wait graph. It uses stacks, process states and the collective
ledger alike; nothing here knows what any particular hang is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.case import (
    Case,
    Child,
    Job,
    Meeting,
    Member,
    RankState,
    Status,
    WaitGraph,
    lock_holder,
)
from whyhang.analyzer.collectives import judge
from whyhang.analyzer.collectives.book import COUNTERS
from whyhang.analyzer.collectives.graph import CallRef, Wait
from whyhang.analyzer.facts import Excerpt, Frame, RasReport, Track, replace
from whyhang.analyzer.job.launch import agents_of
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.rank_state.at_exit import gaps_beside, place_at_the_end, without_interpreter
from whyhang.analyzer.rank_state.ends import ends_of
from whyhang.analyzer.rank_state.motion import SPINNING, Motion, Moved, motion, python_frames
from whyhang.analyzer.rank_state.other_threads import place_backstage
from whyhang.analyzer.rank_state.polled_locks import with_polled_locks
from whyhang.analyzer.rank_state.progress import IN_STEP, progress, standing_by_place
from whyhang.analyzer.rank_state.recent import since_it_stands, since_the_last_death
from whyhang.analyzer.rank_state.records import completed, records_of
from whyhang.analyzer.stacks import LineText, Place, WaitKind, WaitRule, place_of
from whyhang.analyzer.stacks.usercode import is_library, short

STOPPED_STATES = {"T", "t"}
DEAD_STATES = {"Z", "X", "x"}


def align(job: Job, rules: tuple[WaitRule, ...]) -> Case:
    """Place every member, merge the ledger, and read the picture."""
    job = since_the_last_death(job)
    line_text = source_lines(job.excerpts)
    job = with_polled_locks(job, rules, line_text)
    ended = without_interpreter(job)
    last = {m.id: place_at_the_end(job, m, ended) for m in job.members} if ended else {}
    placed = [m for m in job.members if last.get(m.id) is not None]
    job = replace(job, gaps=gaps_beside(job, placed)) if placed else job
    each = [_stand(job, m, rules, line_text, last.get(m.id)) for m in job.members]
    each = place_backstage(job, each, rules, line_text)
    states = for_a_key(set_aside(job, each))
    if not job.absent and all(state.status is Status.WAITING for state in states):
        now = since_it_stands(job)  # nobody is left who could end the wait of the others
        if now is not None:
            return align(now, rules)
    ends = ends_of(job)
    tracks = ranked_tracks(job)
    tracks = (*tracks, *records_of(job, states, tracks, ends))
    waits = _waits_of_stacks(job, states, tracks)
    ledger = judge(tracks, job.groups, job.world_size, waits=waits)
    states = completed(job, states, ledger.spots, ends)
    meeting = [_in_rendezvous(_child_place(one, rules, line_text)) for one in job.launchers]
    return Case(
        job=job,
        states=states,
        ledger=ledger,
        graph=_picture(job, states),
        agents=(*job.agents, *agents_of(job.launchers, meeting)),
    )


def _in_rendezvous(place: Place | None) -> bool | None:
    """Tell whether a launcher still waits for the launchers of other hosts; None if not seen."""
    return None if place is None else place.kind is WaitKind.INIT


def _waits_of_stacks(
    job: Job, states: tuple[RankState, ...], tracks: Iterable[Track]
) -> tuple[Wait, ...]:
    """Draw the waits of ranks that stand in a collective while others send and receive.

    Which group it is on, a stack does not tell; but who waits in it waits for somebody who is
    not there. Where no stack tells the peers of a send or receive, this adds nothing.
    """
    paired = {t.who.rank for t in tracks if t.kind == "stack"}
    recorded = {t.who.rank for t in tracks if t.kind != "stack"}
    if not paired:
        return ()
    ranks = {s.member: job.members[s.member].rank for s in states}
    found = []
    for meeting in _meetings(states):
        if meeting.kind is not WaitKind.COLLECTIVE:
            continue
        inside = {ranks[number] for number in meeting.members}
        others = frozenset(
            rank for rank in ranks.values() if rank is not None and rank not in inside
        )
        found += [
            Wait(
                waiter=rank,
                on=others,
                call=CallRef(op=meeting.op, group=""),
                certain=False,
                kind="stack",
            )
            for rank in inside
            if rank is not None and rank not in recorded
        ]
    return tuple(found)


def set_aside(job: Job, states: list[RankState]) -> tuple[RankState, ...]:
    """Take processes that only look like ranks out of the picture.

    A dump of everything on a host also holds servers and controllers. Ranks of one job enter
    the program at one place; a process without a rank number that entered elsewhere than all
    who wait for ranks is none of them.
    """
    entries = {_entry(job.members[s.member]) for s in states if s.status in IN_STEP}
    return tuple(
        replace(state, status=Status.IDLE)
        if entries
        and state.status not in IN_STEP
        and job.members[state.member].rank is None
        and _entry(job.members[state.member]) not in entries
        else state
        for state in states
    )


def for_a_key(states: tuple[RankState, ...]) -> tuple[RankState, ...]:
    """Take a wait for a key of the store as a wait for a rank, where one is free to set it.

    Who waits in a collective sets no key; then the wait for the key holds all up. A rank that
    waits for nobody, or has ended, may be the one that should set it.
    """
    keys = {s.member for s in states if s.place is not None and s.place.kind is WaitKind.STORE}
    free = {
        Status.BLOCKED,
        Status.RUNNING,
        Status.STOPPED,
        Status.MOVING,
        Status.GONE,
    }
    if not any(s.status in free and s.member not in keys for s in states):
        return states
    return tuple(
        replace(
            state,
            status=Status.WAITING,
            earlier=tuple(
                Status.WAITING if was is Status.BLOCKED else was for was in state.earlier
            ),
        )
        if state.member in keys and state.status is Status.BLOCKED
        else state
        for state in states
    )


def _entry(member: Member) -> str:
    """Name the function through which a process entered its program."""
    thread = main_thread(member.dumps[-1]) if member.dumps else None
    for frame in reversed(thread.frames if thread is not None else ()):
        if not frame.native and not is_library(frame):
            return f"{frame.function} ({short(frame.file)})"
    return ""


def ranked_tracks(job: Job) -> tuple[Track, ...]:
    """Fill in the rank of tracks whose source told only a pid.

    A report that tells only of groups in which ranks differ tells, by its silence, that those
    of an earlier report no longer do.
    """
    last = max((report.number for report in job.of(RasReport)), default=0)
    still = {(t.kind, t.group.name) for t in job.tracks if t.look == last}
    found = []
    for track in job.tracks:
        if track.kind in COUNTERS and (track.kind, track.group.name) not in still:
            continue
        member = job.member_of(track.who) if track.who.rank is None else None
        if member is not None and member.rank is not None:
            who = replace(track.who, rank=member.rank, trust=member.trust)
            found.append(replace(track, who=who))
        else:
            found.append(track)
    return tuple(found)


def source_lines(excerpts: Iterable[Excerpt]) -> LineText:
    """Make a lookup from a frame to its line of source, where a collector kept it."""
    texts = {
        (excerpt.file, excerpt.first_line + offset): text
        for excerpt in excerpts
        for offset, text in enumerate(excerpt.lines)
    }

    def line_text(frame: Frame) -> str | None:
        return texts.get((frame.file, frame.line)) if frame.line is not None else None

    return line_text


def _stand(
    job: Job,
    member: Member,
    rules: tuple[WaitRule, ...],
    line_text: LineText,
    unseen: Place | None = None,
) -> RankState:
    """Place one member; ``unseen`` is where it stands if no stack tells."""
    looks = sorted({dump.look for dump in member.dumps})
    places = _at_equal_depth(
        member, {look: _place_at(member, look, rules, line_text) for look in looks}
    )
    moves = motion(member.dumps, member.processes)
    passed = [places[look] for look in looks[:-1]]
    passed += _before_the_native(member, looks, rules, line_text)
    earlier = tuple(standing_by_place(place) for place in passed)
    in_step = {was in IN_STEP for was in earlier}
    in_step |= {standing_by_place(places[look]) in IN_STEP for look in looks[-1:]}
    if moves.moved is Moved.IN_PLACE and len(in_step) > 1:
        # A training loop is one function: to come to a collective, or out of it, is to go on.
        moves = replace(moves, moved=Moved.ON)
    place = places[looks[-1]] if looks else unseen
    status = _standing(member, place, moves)
    if status is Status.BLOCKED and lock_holder(job, member) is not None:
        status = Status.WAITING  # on the rank that holds the lock
    if status is Status.IDLE and member.rank is not None and place and place.user is not None:
        # A rank in an event loop of its own is in no collective, unless it serves requests.
        place, status = replace(place, certain=False), Status.BLOCKED
    return RankState(
        member=member.id,
        place=place,
        motion=moves,
        status=status,
        earlier=earlier,
        children=tuple(_child_place(child, rules, line_text) for child in member.children),
    )


def _at_equal_depth(member: Member, places: dict[int, Place]) -> dict[int, Place]:
    """Let a native stack speak for earlier looks at the same Python stack that have none.

    Native stacks are taken at the last look only. "Running" before and "in an MPI call" then,
    both at one line, is the same place seen twice, and no step from one to the other.
    """
    last = max(places, default=None)
    if last is None or not places[last].native:
        return places
    stacks = {dump.look: python_frames(dump) for dump in member.dumps}
    return {
        look: places[last] if not place.native and stacks[look] == stacks[last] else place
        for look, place in places.items()
    }


def _place_at(member: Member, look: int, rules: tuple[WaitRule, ...], line_text: LineText) -> Place:
    """Classify one look; a native stack of the same look knows more than a plain one."""
    dumps = [dump for dump in member.dumps if dump.look == look]
    native = [d for d in dumps if any(f.native for t in d.threads for f in t.frames)]
    process = next((p for p in reversed(member.processes) if p.look == look), None)
    return place_of((native or dumps)[-1], process, rules, line_text)


def _before_the_native(
    member: Member, looks: Sequence[int], rules: tuple[WaitRule, ...], line_text: LineText
) -> Iterator[Place]:
    """Place a plain stack of the last look that the native one, a moment later, has left."""
    dumps = [dump for dump in member.dumps if looks and dump.look == looks[-1]]
    if len(dumps) > 1 and python_frames(dumps[0]) != python_frames(dumps[-1]):
        process = member.processes[-1] if member.processes else None
        yield place_of(dumps[0], process, rules, line_text)


def _child_place(child: Child, rules: tuple[WaitRule, ...], line_text: LineText) -> Place | None:
    if not child.dumps:
        return None
    process = child.processes[-1] if child.processes else None
    return place_of(child.dumps[-1], process, rules, line_text)


def _standing(member: Member, place: Place | None, moves: Motion) -> Status:
    state = member.processes[-1].state if member.processes else None
    if state in DEAD_STATES:
        return Status.GONE
    if state in STOPPED_STATES:
        return Status.STOPPED
    if place is None:
        return Status.BLOCKED if state == "D" else Status.UNSEEN
    if (moves.moved is Moved.ON or moves.file) and standing_by_place(place) not in IN_STEP:
        return Status.MOVING
    if place.kind is WaitKind.FILE and _burns(moves):
        return Status.RUNNING  # who uses a CPU gets the data that it asks for
    if place.kind is WaitKind.BACKWARD and moves.moved is Moved.STILL:
        return Status.WAITING  # a backward that uses no CPU at all waits in a collective
    if place.kind is WaitKind.BACKWARD and place.native and state == "R" and _burns(moves):
        return Status.RUNNING  # in no call that waits, by its native stack: it computes
    return standing_by_place(place)


def _burns(moves: Motion) -> bool:
    return moves.cpu is not None and moves.cpu > SPINNING


def _picture(job: Job, states: tuple[RankState, ...]) -> WaitGraph:
    waiting = tuple(s.member for s in states if s.status is Status.WAITING)
    maybe = tuple(s.member for s in states if s.status is Status.MAYBE)
    held_up = {
        Status.BLOCKED,
        Status.RUNNING,
        Status.STOPPED,
        Status.MOVING,
        Status.GONE,
    }
    roots = tuple(s.member for s in states if s.status in held_up)
    return WaitGraph(
        waiting=waiting,
        maybe=maybe,
        roots=roots if waiting or maybe or job.gone else (),
        apart=roots,
        meetings=_meetings(states),
        progress=progress(job, states),
        looks=max((len({d.look for d in m.dumps}) for m in job.members), default=0),
    )


def _meetings(states: tuple[RankState, ...]) -> tuple[Meeting, ...]:
    """Group the waiting ranks by the call they wait in."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for state in states:
        if state.status in {Status.WAITING, Status.MAYBE} and state.place is not None:
            op = state.place.op or state.place.says.call
            key = (state.place.kind.name, op, _purpose(state.place))
            found.setdefault(key, []).append(state.member)
    meetings = []
    for (kind, op, _), members in found.items():
        places = [place for member in members if (place := states[member].place) is not None]
        sites = {_site(place) for place in places}
        meetings.append(
            Meeting(
                kind=WaitKind[kind],
                op=op,
                says=places[0].says,
                members=tuple(members),
                sites=tuple(sorted(sites)),
            )
        )
    return tuple(sorted(meetings, key=lambda meeting: (-len(meeting.members), meeting.members)))


def _purpose(place: Place) -> str:
    """Tell apart collectives of one operation that can never meet, for their callers differ.

    DDP's gradient all_reduce in backward is not the all_reduce of a loss after it.
    """
    if place.kind is not WaitKind.COLLECTIVE:
        return ""
    inside = "backward" if place.context is WaitKind.BACKWARD else ""
    return f"{place.says.call} {inside}"


def _site(place: Place) -> str:
    frame = place.user
    return f"{short(frame.file)}:{frame.line}" if frame is not None else ""

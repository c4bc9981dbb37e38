"""Ranks that others wait for: lagging ones, held by something of their own, and absent ones."""

from collections.abc import Callable, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Who, grouped, ranks_in_words
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INDIRECT, Hit
from whyhang.analyzer.job.records import MissingRank
from whyhang.analyzer.queries.hits import LONGEST, hit_about, members_of, places_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.different_operations import ONE_SIDED
from whyhang.analyzer.queries.waits.states import (
    OWN,
    count,
    has_initialized,
    is_starting,
    kinds_of,
    waiters_for,
)
from whyhang.analyzer.rank_state.from_logs.ends import loses_peer
from whyhang.analyzer.rank_state.over_time.motion import Moved
from whyhang.analyzer.rank_state.over_time.recent import ended_meanwhile
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import Scope, WaitKind
from whyhang.analyzer.wording.describe import call_of, connection_peer, evidence_of, other_end
from whyhang.analyzer.wording.title_fields import subject_fields
from whyhang.analyzer.wording.ways_past import ways_before_in_words

HELD = (Status.BLOCKED, Status.RUNNING)
"""Neither waiting for other ranks, nor stopped, moving or dead: held by something local."""

KNOWN = {Status.STOPPED, Status.GONE}
"""What a process does not do then is certain, whatever its stack leaves open."""

KNOWN_LOCAL_CAUSES = (
    WaitKind.DATALOADER,
    WaitKind.DATASET,
    WaitKind.LOCK,
    WaitKind.GIL,
    WaitKind.FILE,
    WaitKind.NETWORK,
    WaitKind.INPUT,
    WaitKind.DEBUGGER,
    WaitKind.CHECKPOINT,
    WaitKind.STORE,
)
"""What a lagging rank may be doing that has a signature of its own."""

RESTING = (Moved.STILL, Moved.STIRRED, Moved.UNKNOWN)
"""Not seen to run between the looks."""


@query
def lagging(
    case: Case,
    *kinds: WaitKind,
    besides: tuple[WaitKind, ...] = (),
    states: tuple[Status, ...] = HELD,
    moves: tuple[Moved, ...] = (),
    op: str = "",
    only: Callable[[RankState], bool] = lambda _: True,
    while_in: tuple[WaitKind, ...] = (),
    not_while_in: tuple[WaitKind, ...] = (),
    alone: bool = False,
) -> tuple[Hit, ...]:
    """Return one hit for all lagging ranks that stand at the same place.

    Which of them: ``kinds`` are those of the rank's own place, ``besides`` are kinds that it must
    not be; ``states`` and ``moves`` are where it stands and how it moved between the looks; ``op``
    is what it is in, or its main thread where another one decides; ``only`` is any other condition.
    Of which jobs: ``while_in`` are the kinds of operation that the waiting ranks are in,
    ``not_while_in`` the opposite. ``alone`` also takes ranks that nobody is seen waiting for.
    """
    waiters = waiters_for(case)
    operations = {meeting.kind for meeting in case.graph.operations}
    if case.graph.progress or not (waiters or alone):
        return ()
    if (while_in and not operations & set(while_in)) or operations & set(not_while_in):
        return ()
    starting = while_in == (WaitKind.INIT,)
    chosen = (
        state
        for state in _not_waiting(case, waiters)
        if state.status in states
        and (not kinds or kinds_of(state) & set(kinds))
        and not kinds_of(state) & set(besides)
        and (not moves or state.motion.moved in moves)
        and (not op or ((p := state.place) is not None and op in {p.op, p.api, p.main_op}))
        and only(state)
        and not (starting and has_initialized(case.member(state.member)))
    )
    groups = grouped(chosen, _where).values()
    return tuple(_lagging_hit(case, alike, waiters) for alike in groups)


def _not_waiting(case: Case, waiters: tuple[int, ...]) -> list[RankState]:
    """List the ranks that wait for no other, as far as stacks know better than the ledger."""
    recorded = all(case.states[number].position is not None for number in waiters)
    over = ended_meanwhile(case.job)
    return [
        state
        for state in (case.states[number] for number in case.graph.not_waiting)
        # Of ranks whose calls are all recorded the ledger knows better who waits for whom.
        if not (state.position is not None and recorded)
        # How it ended is a line's to say, and jobs come to an end; here, that others wait for it.
        and (
            waiters
            or not (state.status is Status.GONE and (state.end or state.member in over))
            or (
                state.end is not None
                and state.end.own
                and state.end.signal is not None
                and any(map(loses_peer, case.job.lines))  # then who crashed is missed
            )
        )
    ]


def _where(state: RankState) -> tuple[object, ...]:
    place, user = state.place, state.user
    if place is None:
        return (state.status,)
    site = (user.file, user.function, user.line) if user else None
    return (state.status is Status.STOPPED, place.kind, place.context, site)


def _lagging_hit(case: Case, states: list[RankState], waiters: tuple[int, ...]) -> Hit:
    members = tuple(state.member for state in states)
    affected = tuple(sorted(set(waiters) - set(members)))
    evidence = [piece for state in states for piece in evidence_of(case, state)]
    evidence += places_of(case, *(meeting.members[0] for meeting in case.graph.operations))
    certain = all(
        state.place is None or state.place.certain or state.status in KNOWN for state in states
    )
    strength = CLEAR if certain and affected else INDIRECT
    too_many = _too_many(case, members, waiters)
    if too_many:
        strength *= GUESSED
    return hit_about(
        case,
        members,
        affected,
        evidence=evidence,
        strength=strength,
        names_culprit=not (too_many and count(case, members) > count(case, waiters))
        and not _is_open(case, states),
        collective=call_of(case, waiters),
    )


def _is_open(case: Case, states: list[RankState]) -> bool:
    """Return whether it is not seen here who is at fault, whatever these ranks stand in.

    All that are known wait for keys of the store, which somebody should set; none of several is
    left, and one ended first; or the data that they wait for comes from another rank.
    """
    if len(states) == len(case.states):
        ended = len(states) > 1 and all(state.status is Status.GONE for state in states)
        if ended or all(WaitKind.STORE in kinds_of(state) for state in states):
            return True
    sides = ((connection_peer(case, state), state.member) for state in states)
    # a server that runs in a thread of the rank itself is no other rank
    if any(side is not None and side.member not in {None, own} for side, own in sides):
        return True
    ends = ((case.member(state.member).host, other_end(case, state)) for state in states)
    return any(
        end is not None and case.job.member_of(Who(host=host, pid=end.pid)) for host, end in ends
    )


def _too_many(case: Case, members: tuple[int, ...], waiters: tuple[int, ...]) -> bool:
    """Return whether the lagging ranks are the many and merely run, or sleep between two tries.

    Six ranks that went on and two that wait have diverged; who is wrong cannot be seen: those that
    poll may wait for what one of the others should do. Of as many here as there those that wait for
    nobody are to be looked at first, as a possibility. Of one that runs without end and one that
    waits, the first is, and who was ended long after the others had waited in vain. Only at the
    start are the many lagging who have not come.
    """
    if case.graph.operations and all(m.kind is WaitKind.INIT for m in case.graph.operations):
        return False
    states = [case.states[number] for number in members]
    if not waiters or not all(map(_runs_or_polls, states)):
        return False
    endless = all(state.step is not None and state.step.endless for state in states)
    endless = endless or all(state.end is not None for state in states)
    return count(case, members) >= count(case, waiters) + endless


def _runs_or_polls(state: RankState) -> bool:
    return state.status in {Status.RUNNING, Status.MOVING} or (
        state.status is Status.BLOCKED and kinds_of(state) == {WaitKind.SLEEP}
    )


@query
def absent(case: Case, *, starting: bool) -> tuple[Hit, ...]:
    """Return one hit for all ranks that should run on a host that was looked at, and do not.

    ``starting``: only while the others are still in init_process_group, or only after.
    """
    # a size that is too large says nothing of a job whose ranks have met nevertheless
    gone = [lost for lost in case.job.missing if starting or not lost.beyond]
    if not gone or starting is not is_starting(case):
        return ()
    stores = (s.member for s in case.states if WaitKind.STORE in kinds_of(s))
    waiters = tuple(sorted({*waiters_for(case), *stores}))
    if waiters and not starting and _may_have_done_its_part(case):
        return ()
    if not waiters:
        seen = [state for state in case.states if state.status is not Status.UNSEEN]
        over = ended_meanwhile(case.job)
        if seen and (all(map(_on_its_own, seen)) or over.issuperset(s.member for s in seen)):
            return ()  # who is gone has ended and nobody waits for it, or the job is at its end
        gone = [lost for lost in gone if lost.rank not in {case.member(n).rank for n in over}]
        if not gone:
            return ()
    ranks = [lost.rank for lost in gone]
    evidence = [Evidence(source=lost.source.file, quote=lost.quote, rank=None) for lost in gone[:4]]
    evidence += places_of(case, *waiters[:2])
    many = len(ranks) > 1
    fields = subject_fields(case, [], waiters) | {
        "who": ranks_in_words(ranks),
        "does": f"no process of {'them' if many else 'it'} runs{_where_from(gone)}",
        "gone": f"{'have' if many else 'has'} no living process",
        "left": _left_in_words(case, ranks, waiters),
    }
    hit = Hit(
        members=members_of(case, ranks),
        ranks=tuple(ranks),
        affected=waiters,
        evidence=tuple(evidence),
        collective=call_of(case, waiters),
        fields=fields,
    )
    return (hit,)


def _left_in_words(case: Case, ranks: Sequence[int], waiters: Sequence[int]) -> str:
    """Say what is known of the end of ranks without a process: what the first said last, and how.

    Above the call of the others their function may be left, on a condition.
    """
    by_rank = {case.member(state.member).rank: state.last_line for state in case.states}
    last = by_rank.get(ranks[0], "")
    if not last:
        return ""
    words = f" The last that {ranks_in_words(ranks[:1])} said is “{last.strip()[:LONGEST]}”"
    ways = ways_before_in_words(case, waiters[0]) if waiters else ""
    return f"{words}; it may have ended by {ways}." if ways else f"{words}."


def _may_have_done_its_part(case: Case) -> bool:
    """Return whether who is gone may have left the call before a rank that is held up elsewhere.

    Not everybody waits for all in a broadcast or reduce: some come to their end. The launcher,
    which is still there, would have ended the others had it failed.
    """
    if not case.job.launchers:
        return False
    operations = case.graph.operations
    held = any(s.status is Status.BLOCKED and _on_its_own(s) for s in case.states)
    return held and bool(operations) and all(m.op in ONE_SIDED for m in operations)


def _on_its_own(state: RankState) -> bool:
    """Return whether it is known of a member that it waits for no other rank."""
    place = state.place
    return (
        state.status in OWN and place is not None and place.scope not in {Scope.RANKS, Scope.MAYBE}
    )


def _where_from(gone: list[MissingRank]) -> str:
    """Name the hosts that should run the missing ranks, and why some cannot run anywhere."""
    hosts = sorted({lost.host for lost in gone if lost.host})
    quotes = list(dict.fromkeys(lost.quote for lost in gone if lost.beyond))
    why = f" ({'; '.join(quotes[:2])})" if quotes else ""
    return (f" on {', '.join(hosts)}" if hosts else "") + why

"""What is known of each rank beside its stack: the call that records and logs show, and its end.

A stack shows a rank at one moment. Where there is none, a recorder entry, a watchdog line or a
traceback in the rank's log shows the same thing less directly: the operation that it stands in,
or how it ended. ``completed`` fills these in, so that the wait graph sees every rank the same
way, whichever evidence it is known from. ``records_beside.py`` goes the other way.
"""

from collections.abc import Iterable, Mapping

from whyhang.analyzer.collectives.pending import IssuedCall
from whyhang.analyzer.facts import LastLine, LogTail, Outlook, replace
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.rank_state.from_logs.ends import End
from whyhang.analyzer.rank_state.from_logs.gave_up import at_work_until_ended, gave_up
from whyhang.analyzer.rank_state.from_logs.last_phase import last_phases
from whyhang.analyzer.rank_state.from_logs.log_ends import tails_of_ranks
from whyhang.analyzer.rank_state.listed import STATUSES, odd_processes, ras_states
from whyhang.analyzer.rank_state.over_time.beats import Pulse, pulses
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import UNNAMED, Place, Scope, WaitKind, phrase

COMM_INIT = "comm_init"
MAX_LINE = 60  # characters of a line that stand for where a rank is


def completed(
    job: Job,
    states: Iterable[RankState],
    positions: Mapping[int, IssuedCall],
    ends: Mapping[int, End],
) -> tuple[RankState, ...]:
    """Fill in the states of ranks by records and logs, where stacks say nothing.

    ``positions`` are where records show the ranks, ``ends`` how ranks ended, both by rank.
    """
    at_work, waited = at_work_until_ended(job, ends), gave_up(job)
    ras = ras_states(job)
    tails = tails_of_ranks(job)
    printed = {rank: tail.lines[-1].text.strip() for rank, tail in tails.items()}
    last = printed | {
        rank: line.text
        for line in job.of(LastLine)
        if (rank := line.who.rank) is not None
        and (rank not in tails or tails[rank].source != line.source)
    }
    phases = last_phases(tails)
    listed = odd_processes(job)
    beats = pulses(job)
    looked_at = any(member.processes for member in job.members)  # who has none there has ended
    told = ends.keys() | (phases if any(each.inside for each in positions.values()) else ())
    # That it has made a communicator tells less of where a rank is than its own lines or its end.
    positions = {
        rank: position
        for rank, position in positions.items()
        if rank not in told or position.inside or position.call.op != COMM_INIT
    }

    def filled(state: RankState) -> RankState:
        member = job.members[state.member]
        rank = _rank(member)
        state = replace(state, end=ends.get(rank, state.end))
        if state.status is not Status.UNSEEN:
            state = state_with_end(member, state)
        elif state.end is not None and state.end.own:
            state = replace(state, status=Status.GONE)
        elif (position := positions.get(rank)) is not None:
            state = _at_recorded_call(state, position)
        elif state.end is not None and rank in at_work:
            after = printed.get(rank, "")[:MAX_LINE].strip()
            before = f"after '{after}', " if after else ""
            state = _at_work(state, f"at work {before}until the launcher ended it")
        elif state.end is not None and at_work and rank in waited:
            place = Place(kind=WaitKind.COLLECTIVE, scope=Scope.RANKS, says=UNNAMED, certain=False)
            state = replace(state, status=Status.WAITING, place=place)
        elif (phase := phases.get(rank)) is not None:
            state = _at_work(state, f"at '{phase.line.text[:MAX_LINE]}', its last line")
        if state.place is None and rank in listed:
            state = replace(state, status=STATUSES[listed[rank].state])
        pulse = beats.get(state.member)
        by_log = _by_log(tails.get(rank), pulse, waited=rank in waited)
        return replace(
            state,
            ras=ras.get(state.member, ""),
            last_line=last.get(rank, ""),
            by_log=Status.UNSEEN if looked_at else by_log,
            phase=phases.get(rank),
            pulse=pulse,
        )

    return tuple(map(filled, states))


def _rank(member: Member) -> int:
    """Return the rank of a member as the key of what is known by rank; -1: it is not known."""
    return -1 if member.rank is None else member.rank


def _by_log(tail: LogTail | None, pulse: Pulse | None, *, waited: bool) -> Status:
    """Return what the last that a rank printed or noted tells of it; not what trouble made of it.

    A process that prints, and of which no end is known, runs as far as that tells.
    """
    if waited:
        return Status.WAITING
    if tail is None or tail.trouble or tail.troubled:
        return Status.UNSEEN if pulse is None else Status.RUNNING
    return {Outlook.ENDED: Status.GONE, Outlook.IDLE: Status.IDLE}.get(tail.outlook, Status.RUNNING)


def _at_recorded_call(state: RankState, position: IssuedCall) -> RankState:
    """Place a rank where records show it: inside a call, or at work behind its last one."""
    state = replace(state, position=position)
    if not position.inside:
        return _at_work(state, str(position))
    return replace(state, status=Status.WAITING, place=_place_of(position))


def _at_work(state: RankState, says: str) -> RankState:
    place = Place(kind=WaitKind.WORK, scope=Scope.WORK, says=phrase(says), certain=False)
    return replace(state, status=Status.RUNNING, place=place)


def state_with_end(member: Member, state: RankState) -> RankState:
    """Return the state of a rank with stacks, where the log that holds them tells its end, too.

    Of one that raised for others' sake the traceback shows where it ended: unless that is a call
    that it waited in, it is no place where it is at work.
    """
    end = state.end
    if end is None or all(dump.source.file != end.source.file for dump in member.dumps):
        return state
    if end.own:
        return replace(state, status=Status.GONE)
    raised = all(dump.tool == EXCEPTION_STACK for dump in member.dumps)
    ended = raised and not member.processes and state.status is Status.RUNNING
    return replace(state, status=Status.UNSEEN) if ended else state


def _place_of(position: IssuedCall) -> Place:
    call = position.ref
    kind = WaitKind.P2P if call.p2p else WaitKind.COLLECTIVE
    kind = WaitKind.NCCL_INIT if call.op == COMM_INIT else kind
    return Place(
        kind=kind,
        scope=Scope.RANKS,
        says=phrase(f"in {call.op or 'a collective'}"),
        op=call.op,
        user=position.site,
    )

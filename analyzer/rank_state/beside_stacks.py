"""What is known of each rank beside its stack: the call that records and logs show, and its end.

A stack shows a rank at one moment. Where there is none, a recorder entry, a watchdog line or a
traceback in the rank's log shows the same thing less directly: the operation that it stands in,
or how it ended. ``completed`` fills these in, so that the wait graph sees every rank the same
way, whichever evidence it is known from. ``records_beside.py`` goes the other way.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from whyhang.analyzer.collectives.pending import IssuedCall
from whyhang.analyzer.facts import LastLine, LogTail, Outlook, ProcessState, replace
from whyhang.analyzer.facts.base import Item
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.rank_state.from_logs.ends import End
from whyhang.analyzer.rank_state.from_logs.gave_up import at_work_until_ended, gave_up
from whyhang.analyzer.rank_state.from_logs.last_phase import last_phases
from whyhang.analyzer.rank_state.from_logs.log_ends import tails_of_ranks
from whyhang.analyzer.rank_state.from_logs.phase import LastPhase
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
    if any(position.inside for position in positions.values()):
        # That it has made a communicator tells less of where a rank is than its own lines do.
        positions = {
            rank: position
            for rank, position in positions.items()
            if rank not in phases or position.inside or position.call.op != COMM_INIT
        }
    known = _Accounts(
        positions=positions,
        ends=ends,
        at_work=at_work,
        waited=waited if at_work else frozenset(),
        phases=phases,
        last=printed,
    )
    return tuple(
        replace(
            _listed(job, _completed(job, state, known), listed),
            ras=ras.get(state.member, ""),
            last_line=_of(last, rank) or "",
            by_log=_by_log(_of(tails, rank), beats.get(state.member), waited=rank in waited)
            if not looked_at
            else Status.UNSEEN,
            phase=_of(phases, rank),
            pulse=beats.get(state.member),
        )
        for state in states
        for rank in (job.members[state.member].rank,)
    )


def _by_log(tail: LogTail | None, pulse: Pulse | None, *, waited: bool) -> Status:
    """Return what the last that a rank printed or noted tells of it; not what trouble made of it.

    A process that prints, and of which no end is known, runs as far as that tells.
    """
    if waited:
        return Status.WAITING
    if tail is None or tail.trouble or tail.troubled:
        return Status.UNSEEN if pulse is None else Status.RUNNING
    return {Outlook.ENDED: Status.GONE, Outlook.IDLE: Status.IDLE}.get(tail.outlook, Status.RUNNING)


def _of(by_rank: Mapping[int, Item], rank: int | None) -> Item | None:
    return by_rank.get(rank) if rank is not None else None


def _listed(job: Job, state: RankState, listed: Mapping[int, ProcessState]) -> RankState:
    """Return the state of a rank of which nothing but ps tells what its process does."""
    row = listed.get(rank) if (rank := job.members[state.member].rank) is not None else None
    return replace(state, status=STATUSES[row.state]) if row and state.place is None else state


class _Accounts(NamedTuple):
    """What records and logs tell of ranks, by rank.

    Where records show them, how they ended, whom a launcher ended at work and who gave up before,
    where their own lines part, and the last of these.
    """

    positions: Mapping[int, IssuedCall]
    ends: Mapping[int, End]
    at_work: frozenset[int]
    waited: frozenset[int]
    phases: Mapping[int, LastPhase]
    last: Mapping[int, str]


def _completed(job: Job, state: RankState, known: _Accounts) -> RankState:
    member = job.members[state.member]
    end = known.ends.get(member.rank) if member.rank is not None else None
    position = known.positions.get(member.rank) if member.rank is not None else None
    if end is not None:
        state = replace(state, end=end)
    if state.status is not Status.UNSEEN:
        return state_with_end(member, state)
    if end is not None and end.own:
        return replace(state, status=Status.GONE)
    if position is not None and position.inside:
        return replace(state, status=Status.WAITING, place=_place_of(position), position=position)
    phase, says = _of(known.phases, member.rank), ""
    if end is not None and member.rank in known.at_work and position is None:
        last = known.last.get(member.rank, "")[:MAX_LINE].strip()
        after = f"after '{last}', " if last else ""
        says = f"at work {after}until the launcher ended it"
    elif end is not None and member.rank in known.waited and position is None:
        place = Place(kind=WaitKind.COLLECTIVE, scope=Scope.RANKS, says=UNNAMED, certain=False)
        return replace(state, status=Status.WAITING, place=place)
    elif position is not None:
        says = str(position)
    elif phase is not None:
        says = f"at '{phase.line.text[:MAX_LINE]}', its last line"
    if not says:
        return state
    place = Place(kind=WaitKind.WORK, scope=Scope.WORK, says=phrase(says), certain=False)
    return replace(state, status=Status.RUNNING, place=place, position=position)


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
    """Return the place of a rank that a record shows inside a call."""
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

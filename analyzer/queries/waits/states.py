"""Where the ranks stand: who waits for others, in what, and whether all were seen."""

from collections.abc import Iterable

from whyhang.analyzer.case import Case
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import Place, WaitKind
from whyhang.analyzer.stacks.kinds import SHARED_LOCK

OWN = {Status.BLOCKED, Status.RUNNING, Status.MOVING}
"""At something of their own."""

_MESSAGES_OF_MPI = {"send", "ssend", "recv", "mrecv", "probe", "mprobe"}

OF_A_HOLDER = {"win_lock", "win_lock_all"}  # who waits in them waits for the one that holds it


def waiters_for(case: Case) -> tuple[int, ...]:
    """List the members that wait for other ranks; a "maybe" counts once there is a root."""
    return tuple(sorted((*case.graph.waiting, *case.graph.maybe)))


def kinds_of(state: RankState) -> set[WaitKind]:
    """Return what a member waits for, and the larger work it is in (loading data, a checkpoint)."""
    kinds = (state.kind, state.place.context if state.place is not None else None)
    return {kind for kind in kinds if kind is not None}


def await_messages(states: Iterable[RankState]) -> bool:
    """Return whether all of these wait to send or receive: their partner may be who left them."""
    return all(
        state.kind is WaitKind.P2P or (state.kind is WaitKind.MPI and state.op in _MESSAGES_OF_MPI)
        for state in states
    )


def collective_beside(state: RankState) -> Place | None:
    """Return the place of another thread that is in a collective beside the main thread."""
    return next((place for place in state.beside if place.kind is WaitKind.COLLECTIVE), None)


def is_shared_lock(place: Place | None) -> bool:
    """Return whether a place is the wait for a lock that processes share (multiprocessing's)."""
    if place is None or place.op == SHARED_LOCK:
        return place is not None
    shared = place.frame is not None and place.frame.file.endswith("multiprocessing/synchronize.py")
    return shared and place.kind is WaitKind.LOCK


def has_initialized(member: Member) -> bool:
    """Return whether a process was in init_process_group: threads of a backend run in it."""
    threads = member.last.threads if member.last is not None else ()
    return any(thread.name.startswith(("pt_gloo", "gloo_tcp", "pt_nccl")) for thread in threads)


def is_starting(case: Case) -> bool:
    """Return whether some rank waits in init_process_group."""
    return any(meeting.kind is WaitKind.INIT for meeting in case.graph.operations)


def all_seen(case: Case) -> bool:
    """Return whether every member's place is known, so that no root can hide."""
    return all(state.status is not Status.UNSEEN for state in case.states)


def all_wait(case: Case) -> bool:
    """Return whether nobody lags, nothing moves, and no rank is unseen or missing."""
    graph = case.graph
    return not (graph.lagging or graph.progress or case.job.missing) and all_seen(case)


def all_recorded(case: Case) -> bool:
    """Return whether no stack shows any rank: then the ledger knows more of how they meet."""
    return all(state.position is not None for state in case.states)


def count(case: Case, members: Iterable[int]) -> int:
    """Count processes: a record may stand for several that are alike."""
    return sum(case.member(number).copies for number in members)

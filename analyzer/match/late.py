"""Matchers over ranks that others wait for and that are held by something of their own."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.facts import Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.ledger import recorded_hits
from whyhang.analyzer.match.merging import merged
from whyhang.analyzer.match.states import count, has_met, kinds_of, waiters_for
from whyhang.analyzer.rank_state.motion import Moved
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import Place, WaitKind
from whyhang.analyzer.wording.describe import (
    call_of,
    evidence_of,
    location_of,
    subject_fields,
)

SHARED = "multiprocessing/synchronize.py"
"""The module whose locks are shared by processes."""


HELD = (Status.BLOCKED, Status.RUNNING)
"""Neither waiting for other ranks, nor stopped, moving or dead: held by something local."""


class Late(Record):
    """Ranks that others wait for and that themselves wait for no rank.

    ``kinds`` limits it to ranks whose own place is of these kinds; ``besides`` leaves those
    kinds out. ``states`` limits it to these standings. ``while_in`` limits it to jobs whose
    waiting ranks are in these kinds of operation, ``not_while_in`` is the opposite.
    ``worker_in`` asks for a worker of the rank that waits for such a thing of its own process.
    ``alone`` also takes ranks stuck so while nobody is seen waiting for them. ``op`` is what
    the rank is in, or its main thread where another one decides. ``recorded`` also takes what
    records say of ranks that have not joined a call.
    """

    kinds: tuple[WaitKind, ...] = ()
    besides: tuple[WaitKind, ...] = ()
    states: tuple[Status, ...] = HELD
    while_in: tuple[WaitKind, ...] = ()
    not_while_in: tuple[WaitKind, ...] = ()
    op: str = ""
    moves: tuple[Moved, ...] = ()
    worker_in: tuple[WaitKind, ...] = ()
    alone: bool = False
    recorded: tuple[Verdict, ...] = ()

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all lagging ranks that stand at the same place, or by their records."""
        return merged((self._observed(case), recorded_hits(case, *self.recorded)))

    def _observed(self, case: Case) -> tuple[Hit, ...]:
        if case.graph.progress:
            return ()
        waiters = waiters_for(case)
        if not waiters and not self.alone:
            return ()
        operations = {m.kind for m in case.graph.operations}
        if self.while_in and not operations & set(self.while_in):
            return ()
        if self.not_while_in and operations & set(self.not_while_in):
            return ()
        starting = self.while_in == (WaitKind.INIT,)
        # Of ranks whose calls are all recorded the ledger knows better who waits for whom.
        recorded = all(case.states[number].position is not None for number in waiters)
        groups: dict[tuple[object, ...], list[RankState]] = {}
        for number in case.graph.not_waiting:
            state = case.states[number]
            if state.position is not None and recorded:
                continue
            if state.status is Status.GONE and state.end is not None and not waiters:
                continue  # how it ended is a line's to say; here, that others wait for it
            if self._wants(state) and not (starting and has_met(case.member(number))):
                groups.setdefault(_where(state), []).append(state)
        return tuple(_late_hit(case, states, waiters) for states in groups.values())

    def _wants(self, state: RankState) -> bool:
        kinds = kinds_of(state)
        if state.status not in self.states:
            return False
        if self.kinds and not kinds & set(self.kinds):
            return False
        if self.moves and state.motion.moved not in self.moves:
            return False
        place = state.place
        if self.op and (place is None or self.op not in {place.op, place.api, place.main_op}):
            return False
        if self.worker_in and not any(_is_in(place, self.worker_in) for place in state.children):
            return False
        return not kinds & set(self.besides)


def _is_in(place: Place | None, kinds: tuple[WaitKind, ...]) -> bool:
    """Tell whether a worker waits for such a thing within its process: not for a shared lock."""
    shared = place is not None and place.frame is not None and place.frame.file.endswith(SHARED)
    return place is not None and place.kind in kinds and not shared


def late(
    *kinds: WaitKind,
    besides: tuple[WaitKind, ...] = (),
    states: tuple[Status, ...] = HELD,
    while_in: tuple[WaitKind, ...] = (),
    not_while_in: tuple[WaitKind, ...] = (),
    op: str = "",
    moves: tuple[Moved, ...] = (),
    worker_in: tuple[WaitKind, ...] = (),
    alone: bool = False,
    recorded: tuple[Verdict, ...] = (),
) -> Late:
    """Ask for ranks that others wait for; see ``Late``."""
    return Late(
        kinds=kinds,
        besides=besides,
        states=states,
        while_in=while_in,
        not_while_in=not_while_in,
        op=op,
        moves=moves,
        worker_in=worker_in,
        alone=alone,
        recorded=recorded,
    )


def blocked_in(*kinds: WaitKind, op: str = "") -> Late:
    """Ask for ranks blocked so, whether or not anyone is seen waiting for them."""
    return Late(kinds=kinds, alone=True, op=op)


def _where(state: RankState) -> tuple[object, ...]:
    place = state.place
    if place is None:
        return (state.status,)
    user = place.user
    site = (user.file, user.function, user.line) if user else None
    return (state.status is Status.STOPPED, place.kind, place.context, site)


def _late_hit(case: Case, states: list[RankState], waiters: tuple[int, ...]) -> Hit:
    members = tuple(state.member for state in states)
    late_ones = set(members)
    affected = tuple(number for number in waiters if number not in late_ones)
    evidence = [piece for state in states for piece in evidence_of(case, state)]
    for meeting in case.graph.operations:
        evidence += evidence_of(case, case.states[meeting.members[0]])[:1]
    certain = all(state.place is None or state.place.certain for state in states)
    strength = 1.0 if certain and affected else 0.8
    if _contradicted(case, members):
        strength *= 0.5
    if _too_many(case, members, waiters):
        strength *= 0.55
    return Hit(
        members=members,
        affected=affected,
        evidence=tuple(evidence),
        strength=strength,
        names_culprit=not _too_many(case, members, waiters)
        and not _all_for_keys(case, members)
        and not _all_gone(case, members),
        collective=call_of(case, waiters),
        location=location_of(case, states[0]),
        fields=subject_fields(case, states, affected),
    )


def _all_for_keys(case: Case, members: tuple[int, ...]) -> bool:
    """Tell whether all that are known wait for keys of the store: who should set them is not."""
    everyone = len(members) == len(case.states)
    return everyone and all(WaitKind.STORE in kinds_of(case.states[n]) for n in members)


def _all_gone(case: Case, members: tuple[int, ...]) -> bool:
    """Tell whether no rank is left: which of them ended first, and why, is not seen here."""
    everyone = len(members) == len(case.states) > 1
    return everyone and all(case.states[n].status is Status.GONE for n in members)


def _contradicted(case: Case, members: tuple[int, ...]) -> bool:
    """Tell whether the ledger knows these ranks, and blames others."""
    blamed = {rank for finding in case.graph.calls.findings for rank in finding.culprits}
    ranks = set(case.ranks(members))
    return bool(blamed) and ranks <= case.graph.calls.positions.keys() and not ranks & blamed


def _too_many(case: Case, members: tuple[int, ...], waiters: tuple[int, ...]) -> bool:
    """Tell whether the late ones are the many and merely run, or sleep between two tries.

    Six ranks that went on and two that wait have parted; who is wrong cannot be seen: those that
    poll may wait for what one of the others should do. Only at the start are the many late who
    have not come.
    """
    if case.graph.operations and all(m.kind is WaitKind.INIT for m in case.graph.operations):
        return False
    runs = all(_runs_or_polls(case.states[number]) for number in members)
    return runs and bool(waiters) and count(case, members) >= count(case, waiters)


def _runs_or_polls(state: RankState) -> bool:
    return state.status in {Status.RUNNING, Status.MOVING} or (
        state.status is Status.BLOCKED and kinds_of(state) == {WaitKind.SLEEP}
    )

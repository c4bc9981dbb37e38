"""Matchers over jobs that get on, or that nothing holds."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record
from whyhang.analyzer.findings.signature import CLEAR, INDIRECT, Hit
from whyhang.analyzer.match.states import OWN, WAITERS, count
from whyhang.analyzer.rank_state.motion import Moved
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.wording.describe import (
    evidence_of,
    location_of,
    subject_fields,
)


class Moving(Record):
    """The job as a whole goes on, and at every look the same few ranks hold the others up."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit if the waiting ranks had answers, or the late ones were seen to move."""
        graph = case.graph
        waiters = [s for s in case.states if _mostly(s, WAITERS)]
        behind = [s for s in case.states if _mostly(s, OWN)]
        moves = [s for s in behind if s.status is Status.MOVING]
        if not behind or not waiters or not (graph.progress or moves):
            return ()
        numbers = tuple(s.member for s in waiters)
        clear = count(case, [s.member for s in behind]) < count(case, numbers)
        if not clear and (graph.progress or not moves):
            return ()
        return (
            Hit(
                members=tuple(s.member for s in behind) if clear else (),
                affected=numbers if clear else (),
                names_culprit=clear,
                evidence=tuple(piece for s in behind for piece in evidence_of(case, s)),
                strength=CLEAR if graph.progress else INDIRECT,
                location=location_of(case, behind[0]) if clear else None,
                fields=subject_fields(case, behind, numbers),
            ),
        )


def _mostly(state: RankState, standings: set[Status]) -> bool:
    """Tell whether a member stood so at most looks: at all of three, four of five, eight of ten."""
    looks = (*state.earlier, state.status)
    return sum(was in standings for was in looks) >= MOST * len(looks)


MOST = 0.75


def moving() -> Moving:
    """Ask whether the job goes on although some rank is behind."""
    return Moving()


class AtEase(Record):
    """Ranks were seen to go on, and nobody holds the others up."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody."""
        if not case.graph.progress or not case.states or case.job.missing:
            return ()
        moved = [s for s in case.states if s.motion.moved in {Moved.ON, Moved.STIRRED}]
        return (
            Hit(
                names_culprit=False,
                evidence=tuple(piece for s in moved[:3] for piece in evidence_of(case, s)[:1]),
                fields=subject_fields(case, moved, ()),
            ),
        )


def at_ease() -> AtEase:
    """Ask whether the job simply runs."""
    return AtEase()

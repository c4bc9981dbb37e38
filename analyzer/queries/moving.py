"""Jobs that move, only slowly."""

from whyhang.analyzer.case import Case
from whyhang.analyzer.findings.signature import CLEAR, INDIRECT, Hit
from whyhang.analyzer.queries.left_behind import left_behind
from whyhang.analyzer.queries.states import OWN, WAITERS, count
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.wording.describe import location_of
from whyhang.analyzer.wording.evidence import evidence_of
from whyhang.analyzer.wording.title_fields import subject_fields

MOST = 0.75
"""Share of the looks at which a rank must have stood so: all of three, four of five."""


def stragglers(case: Case) -> tuple[Hit, ...]:
    """Return one hit if the job goes on, and at most looks the same few ranks hold the others up.

    It goes on where the waiting ranks had answers, or those behind were seen to move.
    """
    graph = case.graph
    waiters = [s for s in case.states if _mostly(s, WAITERS)]
    behind = [s for s in case.states if _mostly(s, OWN)]
    moves = any(s.status is Status.MOVING for s in behind)
    if not behind or not waiters or not (graph.progress or moves):
        return ()
    numbers = tuple(s.member for s in waiters)
    clear = count(case, [s.member for s in behind]) < count(case, numbers)
    if (not clear and (graph.progress or not moves)) or left_behind(case) is not None:
        return ()
    hit = Hit(
        members=tuple(s.member for s in behind) if clear else (),
        affected=numbers if clear else (),
        names_culprit=clear,
        evidence=tuple(piece for s in behind for piece in evidence_of(case, s)),
        strength=CLEAR if graph.progress else INDIRECT,
        location=location_of(case, behind[0]) if clear else None,
        fields=subject_fields(case, behind, numbers),
    )
    return (hit,)


def _mostly(state: RankState, statuses: set[Status]) -> bool:
    looks = (*state.earlier, state.status)
    return sum(was in statuses for was in looks) >= MOST * len(looks)

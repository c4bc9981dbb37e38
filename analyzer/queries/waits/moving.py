"""Jobs that move: few ranks that hold them up, and ranks that wait while others count on."""

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record, replace
from whyhang.analyzer.findings.signature import CLEAR, INDIRECT, Hit
from whyhang.analyzer.queries.hits import hit_about
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.states import OWN, count
from whyhang.analyzer.rank_state.over_time.job_progress import (
    Counter,
    in_lockstep,
    step_counters,
)
from whyhang.analyzer.rank_state.over_time.motion import Moved
from whyhang.analyzer.rank_state.state import IN_STEP, RankState, Status
from whyhang.analyzer.wording.describe import evidence_of

MOST = 0.75
"""Share of the looks at which a rank must have stood so: all of three, four of five."""


@query
def stragglers(case: Case, *, share: float = MOST) -> tuple[Hit, ...]:
    """Return one hit if the job goes on, and at most looks the same few ranks hold the others up.

    ``share`` is that of the looks at which they must. It goes on where the waiting ranks had
    answers, or those behind were seen to move.
    """
    graph = case.graph
    waiters = [s for s in case.states if _mostly(s, IN_STEP, share)]
    behind = [s for s in case.states if _mostly(s, OWN, share)]
    moves = any(s.status is Status.MOVING for s in behind)
    if not behind or not waiters or not (graph.progress or moves):
        return ()
    numbers = tuple(s.member for s in waiters)
    clear = count(case, [s.member for s in behind]) < count(case, numbers)
    if (not clear and (graph.progress or not moves)) or left_behind(case) is not None:
        return ()
    hit = hit_about(
        case,
        (s.member for s in behind),
        numbers,
        evidence=(piece for s in behind for piece in evidence_of(case, s)),
        strength=CLEAR if graph.progress else INDIRECT,
        names_culprit=clear,
        located=clear,
    )
    return (hit if clear else replace(hit, members=(), affected=()),)


def _mostly(state: RankState, statuses: set[Status], share: float) -> bool:
    looks = (*state.earlier, state.status)
    return sum(was in statuses for was in looks) >= share * len(looks)


STEPS = 3
"""Steps that others have gone on, at least, since a rank stays where it is."""


class LeftBehind(Record):
    """Members that wait, those that go on, and the step of each by a counter that all have.

    ``behind`` are those of ``waiting`` that counted least. ``last`` is where those ahead are now.
    """

    behind: tuple[int, ...]
    waiting: tuple[int, ...]
    ahead: tuple[int, ...]
    counter: Counter
    step: int
    last: int


def left_behind(case: Case) -> LeftBehind | None:
    """Return who waits without having run at all while others count on; None where nobody does.

    Those must be seen in steps of their own: one that evaluates alone may count as well.
    """
    counted = step_counters(case.job)
    known = [s for s in case.states if s.member in counted]
    still = [s for s in known if s.status in IN_STEP and s.motion.moved is Moved.STILL]
    rest = [s for s in known if s not in still]
    if not still or not rest:
        return None
    waiting = tuple(s.member for s in still)
    common = set.intersection(*(set(counted[s.member]) for s in known))
    growing = {
        counter: [s for s in rest if len(set(counted[s.member][counter])) > 1]
        for counter in common
        if all(len(set(counted[number][counter])) == 1 for number in waiting)
    }
    counter = min((c for c, ahead in growing.items() if ahead), default=None)
    if counter is None:
        return None
    ahead = growing[counter]
    steps = {number: counted[number][counter][0] for number in waiting}
    least = min(steps.values())
    now = [counted[s.member][counter][-1] for s in ahead]
    together = (
        case.graph.progress
        or any(IN_STEP & {s.status, *s.earlier} for s in ahead)
        or not in_lockstep(case.job).isdisjoint(s.member for s in ahead)
    )
    if not together or min(now) < least + STEPS:
        return None
    return LeftBehind(
        behind=tuple(number for number in waiting if steps[number] == least),
        waiting=waiting,
        ahead=tuple(s.member for s in ahead),
        counter=counter,
        step=least,
        last=max(now),
    )

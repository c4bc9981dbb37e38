"""A matcher for jobs that serve: one rank takes requests and hands them to the others."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.match.states import waiters_for
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import REQUESTS, WaitKind
from whyhang.analyzer.stacks.usercode import user_frame
from whyhang.analyzer.wording.describe import evidence_of, subject_fields

_FROM_ONE = {"broadcast", "scatter", "recv"}
"""Operations in which the others only take what one rank gives."""


class Serves(Record):
    """One rank waits for requests, and all others for what it will hand them."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody: there is nothing to do."""
        servers = [s for s in case.states if _waits_for_requests(case, s)]
        others = [s for s in case.states if s not in servers]
        takes = all(
            s.status is Status.WAITING and s.place is not None and s.place.op in _FROM_ONE
            for s in others
        )
        if len(servers) != 1 or not others or not takes or case.graph.progress:
            return ()
        waiting = waiters_for(case)
        return (
            Hit(
                affected=waiting,
                names_culprit=False,
                evidence=tuple(
                    piece for s in (servers[0], others[0]) for piece in evidence_of(case, s)[:1]
                ),
                fields=subject_fields(case, servers, waiting),
            ),
        )


def serves() -> Serves:
    """Ask whether the job is a server without a request; see ``Serves``."""
    return Serves()


def _waits_for_requests(case: Case, state: RankState) -> bool:
    """Tell a rank in the loop of a server, none of whose threads is at work for a request."""
    place, dumps = state.place, case.member(state.member).dumps
    if place is None or place.kind is not WaitKind.IDLE or place.op != REQUESTS or not dumps:
        return False
    main = main_thread(dumps[-1])
    return not any(user_frame(t.frames) for t in dumps[-1].threads if t is not main)

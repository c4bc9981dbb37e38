"""Few ranks stand elsewhere than most, and no frame tells who waits.

A library with a way of its own to talk between ranks shows no call that is known: its ranks seem to
run or to sleep. But most of them stand at one line, where they may wait for each other, and few at
another line of the program. Once they are looked at several times, and move, this says nothing.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import grouped
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.queries import GUESSED, Case, Hit, Moved, RankState, Signature, Status
from whyhang.analyzer.stacks.usercode import line_of

MOST = 2 / 3
"""Share of the ranks that must stand at one line, at least."""

AT_REST = (Moved.STILL, Moved.UNKNOWN)


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the few."""
    if queries.waiters_for(case) or case.graph.progress or not queries.all_seen(case):
        return
    by_line = grouped(case.states, lambda state: _line(case.job, state))
    together = max(by_line.values(), key=len, default=[])
    few = [state for state in case.states if state not in together]
    if "" in by_line or not few or len(together) < max(2, MOST * len(case.states)):
        return
    members = [state.member for state in few]
    others = [state.member for state in together]
    yield queries.hit_about(
        case,
        members,
        others,
        evidence=queries.places_of(case, *members[:2], others[0]),
        strength=GUESSED,
        fields={"there": _line(case.job, together[0])},
    )


def _line(job: Job, state: RankState) -> str:
    """Return the line of the program at which a rank with a number stands, if it may wait there."""
    may_wait = state.status in {Status.RUNNING, Status.BLOCKED, Status.UNSEEN}
    numbered = job.members[state.member].rank is not None
    if state.user is None or not may_wait or not numbered or state.motion.moved not in AT_REST:
        return ""
    return line_of(state.user)


SIGNATURE = Signature(
    id="stands-apart",
    category="missing-rank-in-collective",
    level="fallback",
    title="{others} stand at {there}, {who} elsewhere{at}",
    when=when,
    means=(
        "Most ranks stand at one line, as those do that wait for each other; {who} did not come "
        "to it, or left it. No frame says that anybody waits there."
    ),
    confidence="possible",
    remedies=("{look}: why {is} {who} there and not at {there}?",),
    next_steps=("py-spy dump --native --pid PID  # of {who} and of another rank, twice",),
)

"""By their heartbeats some ranks are a step behind the others, and no rank goes on.

Ranks that call ``whyhang.heartbeat(step)`` leave the number of their last step. Those that have
come furthest wait in that step, as a rule, for those that have not begun it. The beat says where a
rank was last, not what it does there: a stack or a log line of it says more.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE
from whyhang.analyzer.queries import Case, Hit, Signature, Status
from whyhang.analyzer.rank_state.beats import usual_step

FEW = 0.5
"""Share of the ranks that may be behind, at most, for them to be the odd ones."""

LATE = 3.0
"""A rank is late once it has been silent so many times as long as its longest step took."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that are behind, where nothing else shows what they do."""
    beats = {s.member: s.pulse for s in case.states if s.pulse is not None}
    behind = [
        state
        for state in case.states
        if state.pulse is not None
        and state.pulse.behind
        and state.status in {Status.UNSEEN, Status.RUNNING}
        and not state.pulse.goes_on
    ]
    ahead = tuple(number for number, pulse in beats.items() if not pulse.behind)
    late = sum(pulse.behind > 0 for pulse in beats.values())
    if case.graph.progress or not behind or len(behind) < late or late > FEW * len(beats):
        return
    usual = usual_step(beats.values())
    silent = [pulse.silent_for for pulse in beats.values() if pulse.silent_for is not None]
    if usual is not None and silent and min(silent) <= LATE * usual:
        return  # the next step may be under way
    first = min(behind, key=lambda state: state.pulse.last.step if state.pulse else 0)
    furthest = max(pulse.last.step for pulse in beats.values())
    steps = f"step {first.pulse.last.step}" if first.pulse is not None else "a step"
    yield Hit(
        members=tuple(state.member for state in behind),
        affected=ahead,
        evidence=tuple(
            queries.beat_of(case, state)
            for state in (*behind, *(case.states[number] for number in ahead[:1]))
        ),
        strength=CLEAR if silent and usual is not None else INCOMPLETE,
        fields={
            **queries.subject_fields(case, behind, ahead),
            "step": steps,
            "furthest": str(furthest),
        },
    )


SIGNATURE = Signature(
    id="steps-behind",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} came no further than {step}, and {others} are in step {furthest}",
    when=when,
    means=(
        "By their heartbeats {others} have begun step {furthest}, where they most likely wait, and "
        "{who} {has} not. What {who} {do} since {step} the heartbeats do not tell."
    ),
    confidence="likely",
    remedies=("Look at what {who} {do} between two steps: data, a checkpoint, an evaluation.",),
    next_steps=("whyhang {pid}  # on the host of {who}, while it hangs",),
)

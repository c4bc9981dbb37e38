"""The job moves: slowly, because of few ranks, or as it should."""

from collections.abc import Iterator

from whyhang.analyzer.queries import (
    Case,
    Hit,
    Kind,
    Moved,
    Signature,
    evidence_of,
    stragglers,
    subject_fields,
)


def healthy(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if ranks went on and nobody holds the others up."""
    if not case.graph.progress or not case.states or case.job.missing or stragglers(case):
        return
    moved = [s for s in case.states if s.motion.moved in {Moved.ON, Moved.STIRRED}]
    yield Hit(
        names_culprit=False,
        evidence=tuple(piece for s in moved[:3] for piece in evidence_of(case, s)[:1]),
        fields=subject_fields(case, moved, ()),
    )


SLOW = Signature(
    id="slow-not-hung",
    story="""\
The job moves, only late: one rank is slower and the others wait for it each step.

Between two looks a rank went on, or the waiting ranks had an answer and came back to wait
again. Restarting such a job loses its work for nothing.
""",
    category="slow-not-hung",
    kind=Kind.CAUSE,
    level="wait",
    title="The job still moves; {others} {wait} for {who} ({does}{at})",
    when=stragglers,
    means=(
        "Ranks went on between the looks, so this is not a hang. {who} is behind the others "
        "({does}{at}).{lasting}"
    ),
    confidence="likely",
    remedies=("Leave the job running, and look at why {who} is slower: data, CPU, thermal, host.",),
    next_steps=("whyhang {pid} --looks 10 --interval 5  # is it always the same rank?",),
)

HEALTHY = Signature(
    id="healthy",
    story="""\
Nothing is wrong: the ranks go on.

Every rank that was looked at twice had moved, or had come back to the same wait in between,
and none holds the others up.
""",
    category="healthy",
    kind=Kind.CAUSE,
    level="wait",
    title="The ranks go on; no hang was found",
    when=healthy,
    means="The ranks moved between the looks, and none holds the others up.",
    confidence="strong",
    remedies=("Nothing to do.",),
    next_steps=("whyhang PID --looks 6 --interval 5  # if you still doubt it",),
)

SIGNATURES = (SLOW, HEALTHY)

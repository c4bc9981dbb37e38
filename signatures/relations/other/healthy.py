"""Nothing is wrong: the ranks go on.

Every rank that was looked at twice had moved, or had come back to the same wait in between,
and none holds the others up.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Moved, Signature


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if ranks went on and nobody holds the others up."""
    if not case.graph.progress or not case.states or case.job.missing or queries.stragglers(case):
        return
    if queries.left_behind(case) is not None:
        return
    moved = [s.member for s in case.states if s.motion.moved in {Moved.ON, Moved.STIRRED}]
    evidence = queries.places_of(case, *moved[:3])
    yield queries.hit_about(case, (), (), shown=moved, evidence=evidence, located=False)


SIGNATURE = Signature(
    id="healthy",
    category="healthy",
    level="wait",
    title="The ranks go on; no hang was found",
    when=when,
    means="The ranks moved between the looks.",
    confidence="strong",
    remedies=("Nothing to do.",),
    next_steps=("whyhang {pid} --looks 6 --interval 5  # if you still doubt it",),
)

"""Two threads of a rank are in collectives at once, and the ranks do not agree which comes first.

Calls of a process group match by the order in which each rank makes them. A thread beside the main
one (metrics, an asynchronous checkpoint, prefetching) that uses the same group makes that order a
matter of chance: one rank's first call is another's second, and no two fit. It goes well as long as
the threads take turns. With a group of its own for the thread nothing can be mixed up.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import replace
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind
from whyhang.analyzer.stacks.usercode import in_words


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody: which rank was first in the wrong call is not seen."""
    graph = case.graph
    if graph.lagging or graph.progress or not queries.all_seen(case) or case.job.missing:
        return
    if any(operation.kind is not WaitKind.COLLECTIVE for operation in graph.operations):
        return
    twofold = [
        (s, beside) for s in case.states if (beside := queries.collective_beside(s)) is not None
    ]
    if not twofold:
        return
    state, beside = twofold[0]
    members = tuple(s.member for s, _ in twofold)
    affected = tuple(sorted(s.member for s in case.states if s.status in queries.WAITERS))
    fields = queries.subject_fields(case, [s for s, _ in twofold], ())
    fields |= {
        "main": str(state.place.says.call) if state.place is not None else "a collective",
        "thread": beside.thread or str(beside.tid),
        "other": str(beside.says.call),
        "there": f" at {in_words(beside.user)}" if beside.user is not None else "",
    }
    strength = CLEAR if len(graph.operations) == 1 else INCOMPLETE
    yield Hit(
        affected=affected,
        evidence=tuple(
            piece
            for at in (state, replace(state, place=beside))
            for piece in queries.evidence_of(case, at)[:1]
        ),
        names_culprit=False,
        strength=strength * (GUESSED if case.job.absent else CLEAR),
        collective=queries.call_of(case, members),
        location=queries.location_of(case, state),
        fields=fields,
    )


SIGNATURE = Signature(
    id="collectives-on-two-threads",
    category="collective-mismatch",
    level="program",
    title=(
        "Two threads of {who} call collectives at once, in no agreed order: the main thread is "
        'in {main}{at}, thread "{thread}" in {other}{there}'
    ),
    when=when,
    means=(
        "No rank is missing. Calls of a process group match by the order in which each rank makes "
        "them; where two threads call on one group, that order is a matter of chance and differs "
        "between the ranks, so that the calls cannot match."
    ),
    confidence="likely",
    remedies=(
        (
            "Give the thread a process group of its own: dist.new_group() on all ranks, passed as "
            "group= (process_group= in torch.distributed.checkpoint.async_save)."
        ),
        "Or make all collective calls on one thread, and hand the thread only the results.",
    ),
    next_steps=(
        "TORCH_FR_BUFFER_SIZE=2000 on the next run records in which order each rank called.",
    ),
)

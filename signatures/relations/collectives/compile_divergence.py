"""Some ranks compile, and are in a collective there that the others do not come to.

A new shape, a guard that fails or a colder cache makes one rank trace and compile again. What runs
at compile time may talk to the other ranks: dynamo's compiler collectives, a backend that agrees on
kernels, a program's own function that is traced. The others run what they have compiled before and
are in the next collective of their step.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that wait inside a compilation, while others wait outside."""
    graph = case.graph
    if graph.lagging or graph.progress or not queries.all_seen(case) or case.job.missing:
        return
    waiting = [s for s in case.states if s.status in queries.WAITERS and s.place is not None]
    inside = [s for s in waiting if WaitKind.COMPILE in queries.kinds_of(s)]
    members = tuple(s.member for s in inside)
    others = tuple(s.member for s in waiting if s not in inside)
    if not members or not others:
        return
    few = queries.count(case, members) < queries.count(case, others)
    place = inside[0].place
    fields = queries.subject_fields(case, inside, others)
    fields["own"] = str(place.says.call) if place is not None else "a collective"
    yield Hit(
        members=members,
        affected=others,
        names_culprit=few,
        evidence=tuple(
            piece
            for state in (inside[0], case.states[others[0]])
            for piece in queries.evidence_of(case, state)[:1]
        ),
        collective=queries.call_of(case, members),
        location=queries.location_of(case, inside[0]),
        fields=fields,
    )


SIGNATURE = Signature(
    id="compile-divergence",
    category="compile-divergence",
    level="program",
    title="{who} {is} compiling alone and {waits} in {own}{at}; {others} {wait} in {call}",
    when=when,
    means=(
        "{who} {is} in a call that is made only while compiling, and {others} in {call}. Most "
        "often an input of another shape, or a guard that failed, made it compile again."
    ),
    confidence="certain",
    remedies=(
        "Find out why it compiles again: TORCH_LOGS=recompiles on all ranks names the guard.",
        (
            "Give all ranks the same shapes, or mark what varies as dynamic "
            "(torch._dynamo.mark_dynamic, dynamic=True); call no collective at compile time."
        ),
    ),
    next_steps=("TORCH_LOGS=recompiles  # on the next run: which rank, which guard?",),
    links=("https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",),
)

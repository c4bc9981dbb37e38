"""A rank has come back from the backward in which the others still wait for its gradients.

DDP reduces gradients once all parameters have one. Where a part of the model took no part in the
forward of a rank (a branch on what its batch holds), its backward ends without that, and the rank
goes on to its next collective. ``no_sync()`` on some ranks only looks the same. Nothing else leads
past a backward: who stands further down in that turn, in a call of all ranks, has come through it.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, call_of
from whyhang.analyzer.stacks.source_paths import apart_by, comes_first


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit if all others are further down than those who wait for gradients."""
    if case.graph.progress or case.graph.lagging or not queries.all_seen(case):
        return
    inside = [state for state in case.states if _reduces_gradients(state)]
    past = [state for state in case.states if state not in inside]
    if not inside or not past or not all(_came_through(case, each, inside[0]) for each in past):
        return
    members, others = (tuple(state.member for state in side) for side in (past, inside))
    yield queries.hit_about(
        case,
        members,
        others,
        evidence=queries.places_of(case, *members[:2], others[0]),
        collective=call_of(case, others),
    )


def _reduces_gradients(state: RankState) -> bool:
    frame = state.place.frame if state.place is not None else None
    return frame is not None and frame.function.startswith("c10d::Reducer::")


def _came_through(case: Case, state: RankState, other: RankState) -> bool:
    """Return whether a rank is in a call of all ranks behind the backward of another."""
    if state.place is None or not queries.needs_everybody(state.op or "wait"):
        return False
    path, its = (queries.path_of(case, each) for each in (state, other))
    return comes_first(its, path, case.text) and not apart_by(path, its, case.text)


SIGNATURE = Signature(
    id="gradients-not-reduced",
    category="unused-parameters",
    level="program",
    title="{who} came back from backward without reducing gradients; {others} waits for them",
    when=when,
    means=(
        "{others} {wait} in {call} for the gradients of {who}, and {who} {is} past that backward, "
        "{does}{at}: in its forward a part of the model was not used (a branch on what the batch "
        "holds, a loss that is left out), or it ran under no_sync()."
    ),
    confidence="strong",
    remedies=(
        "Let every forward use all parameters, or set find_unused_parameters=True.",
        "Enter no_sync() on all ranks in the same steps.",
    ),
    next_steps=(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run names the parameters without a gradient",
    ),
    links=("https://pytorch.org/docs/stable/notes/ddp.html",),
)

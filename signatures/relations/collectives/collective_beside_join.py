"""Ranks that ran out of inputs stand at the end of a Join context, others in a call beside it.

``Join`` makes up for the calls that DDP and its like make in a step, on the ranks that have no data
left. For a collective of the program's own in that loop (a metric, a norm, a flag) it does nothing:
the ranks with more data wait in it for those that have left the loop.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, WaitKind, call_of
from whyhang.analyzer.stacks.kinds import last_name
from whyhang.analyzer.stacks.usercode import in_words

_JOIN = "torch/distributed/algorithms/join.py"
_API = ("torch/distributed/distributed_c10d.py", "torch/distributed/c10d_logger.py")


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit that points at the call, and blames nobody for having more data or less."""
    if case.graph.progress or case.graph.lagging or not queries.all_seen(case):
        return
    through = [s for s in case.states if _is_leaving(case, s)]
    others = [s for s in case.states if s not in through]
    if not through or not all(_is_in_call_of_its_own(case, s) for s in others) or not others:
        return
    first = others[0]
    members = [state.member for state in others]
    yield queries.hit_about(
        case,
        (),
        [state.member for state in case.states],
        shown=members[:1],
        evidence=queries.places_of(case, members[0], through[0].member),
        fields={
            "through": case.names(state.member for state in through),
            "have": "have" if len(through) > 1 else "has",
            "others": case.names(members),
            "call": first.op or "a collective",
            "at": f" at {in_words(first.user)}" if first.user is not None else "",
        },
        collective=call_of(case, members),
    )


SIGNATURE = Signature(
    id="collective-beside-join",
    category="uneven-inputs",
    level="program",
    title=(
        "{through} {have} run out of inputs and left the loop for Join, while {others} waits "
        "in {call}{at}, for which Join does not make up"
    ),
    when=when,
    means=(
        "The ranks have different numbers of batches. {through} {have} no more and stand at the "
        "end of the Join context; {others}, still in the loop, waits in {call}{at}. Join makes up "
        "for the calls of the models and optimizers that it was given, not for this one."
    ),
    confidence="strong",
    remedies=(
        "Take {call}{at} out of the loop: add up on each rank, and reduce once behind the context.",
        "Or give each rank as many batches (DistributedSampler, drop_last=True), without Join.",
        "Or make a Joinable of it, whose hook makes that call on ranks without data.",
    ),
    next_steps=("Print the number of batches on every rank.",),
    # says why the steps differ
    explains=("in-another-step",),
)


def _is_leaving(case: Case, state: RankState) -> bool:
    """Return whether a rank is at the end of a Join context: it has no inputs left."""
    frames = case.member(state.member).main_frames()
    return any(last_name(f) == "__exit__" and f.file.endswith(_JOIN) for f in frames)


def _is_in_call_of_its_own(case: Case, state: RankState) -> bool:
    """Return whether the program itself made the call, and no model or optimizer."""
    place, frames = state.place, case.member(state.member).main_frames()
    if place is None or place.kind is not WaitKind.COLLECTIVE or place.user not in frames:
        return False
    called = frames[: frames.index(place.user)]
    return place.context is None and all(f.native or f.file.endswith(_API) for f in called)

"""A rank has run out of data and left the loop that the others are still in.

Shards of different length, a sampler without drop_last, an iterable dataset that is not
split evenly: one rank has fewer steps, and goes on to the barrier or the end while the others
wait for it in the gradient all_reduce.
"""

import re
from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Frame, replace
from whyhang.analyzer.findings.signature import INCOMPLETE
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, Status, Verdict, WaitKind
from whyhang.analyzer.stacks import LineText
from whyhang.analyzer.stacks.blocks import indent
from whyhang.analyzer.stacks.threads import source_lines
from whyhang.analyzer.stacks.usercode import user_path

_LOOP = re.compile(r"\s*(?:async\s+)?(?:for|while)\b")

_OF_A_MODEL = re.compile(
    r"param|grad|bucket|tensor|layer|module|weight|buffer|rank|world|group", re.IGNORECASE
)
"""A loop over the parts of a model or over ranks: to be out of it is to be further in the step."""


def when(case: Case) -> Iterable[Hit]:
    return queries.merged(_by_stacks(case), queries.recorded(case, Verdict.LEFT_LOOP))


SIGNATURE = Signature(
    id="uneven-inputs",
    category="uneven-inputs",
    level="program",
    title="{who} {has} left the training loop early while {others} {wait} for it in {call}",
    when=when,
    means=(
        "{who} {is} past the loop ({does}{at}); {others}, still in a step, {wait} for it. "
        "Most often the ranks have different numbers of batches."
    ),
    confidence="likely",
    remedies=(
        (
            "Give every rank the same number of batches: DistributedSampler, drop_last=True, or "
            "split iterable datasets evenly."
        ),
        "Where that cannot be, wrap the loop in torch.distributed.algorithms.join.Join.",
    ),
    next_steps=("Print len(loader) on every rank.",),
    links=("https://pytorch.org/docs/stable/distributed.algorithms.join.html",),
    # says why the calls differ
    explains=("collective-mismatch",),
)


def _by_stacks(case: Case) -> Iterator[Hit]:
    """Yield one hit for few ranks further down in the function whose loop the others are in.

    Seen in the source: further down, and no deeper than the head of a loop that the others are
    in. Without the source, further down and shutting down says the same, less surely.
    """
    if case.graph.progress:
        return
    status = {Status.WAITING, Status.MAYBE, Status.BLOCKED}
    states = [s for s in case.states if s.status in status and s.place is not None]
    inside = _in_step(states)
    step = {s.member for s in inside}
    outside = [s for s in states if s.member not in step]
    if not inside or not outside or len(outside) >= len(inside):
        return
    if inside[0].place is not None and inside[0].place.op == "rpc":
        return  # servers of calls stand at the end of their program
    sure = [_past(case, state, inside[0]) for state in outside]
    if not all(sure):
        return
    waiting = tuple(s.member for s in inside)
    members = tuple(s.member for s in outside)
    yield Hit(
        members=members,
        affected=waiting,
        evidence=tuple(p for s in (*outside, inside[0]) for p in queries.evidence_of(case, s)),
        strength=min(value for value in sure),
        collective=queries.call_of(case, waiting),
        location=queries.location_of(case, outside[0]),
        fields=queries.subject_fields(case, outside, waiting),
    )


def _in_step(states: list[RankState]) -> list[RankState]:
    """Return the largest set of ranks that wait for others at one place."""
    groups: dict[object, list[RankState]] = {}
    for state in states:
        if state.status in {Status.WAITING, Status.MAYBE} and state.place is not None:
            user = state.place.user
            key = (
                state.place.kind,
                state.place.op,
                user.file if user else "",
                user.line if user else 0,
            )
            groups.setdefault(key, []).append(state)
    return max(groups.values(), key=len, default=[])


def _past(case: Case, state: RankState, other: RankState) -> float:
    """Return how sure it is that ``state`` has left the loop of ``other``; 0 is: not at all."""
    fork = _fork(_user_path(case, state), _user_path(case, other))
    if fork is None:
        return 0.0
    mine, its = fork
    if mine.line is None or its.line is None or mine.line <= its.line:
        return 0.0
    text = source_lines(case.job.excerpts)
    here, there = text(mine), text(its)
    if here is not None and there is not None:
        left = _leaves_loop(text, its, indent(there), indent(here))
        waits = state.status in {Status.WAITING, Status.MAYBE}
        below = waits and _in_loop_below(text, its, _user_path(case, other))
        return 1.0 if left or below else 0.0
    # A barrier further down may as well be the bug itself; shutting down is past any loop.
    return INCOMPLETE if state.place is not None and state.place.kind is WaitKind.TEARDOWN else 0.0


def _user_path(case: Case, state: RankState) -> list[Frame]:
    """Return the user's own frames, outermost first."""
    dumps = case.member(state.member).dumps
    thread = main_thread(dumps[-1]) if dumps else None
    return user_path(thread.frames) if thread is not None else []


def _fork(mine: list[Frame], its: list[Frame]) -> tuple[Frame, Frame] | None:
    """Return the function that both are in at different lines."""
    for a, b in zip(mine, its, strict=False):
        if (a.function, a.file) != (b.function, b.file):
            return None
        if a.line != b.line:
            return (a, b)
    return None


def _leaves_loop(text: LineText, inside: Frame, depth: int, to: int) -> bool:
    """Return whether going from ``depth`` out to ``to`` leaves a loop, and not only ifs and withs.

    The lines that open the blocks around ``inside`` are looked up. Where the source is not kept
    that far, being less deep has to do.
    """
    for number in range((inside.line or 1) - 1, 0, -1):
        line = text(replace(inside, line=number)) or ""
        if not line.strip() or line.lstrip().startswith("#") or indent(line) >= depth:
            continue
        depth = indent(line)
        if depth < to:
            return False
        if _LOOP.match(line):
            return True
    return to < depth


def _in_loop_below(text: LineText, caller: Frame, path: list[Frame]) -> bool:
    """Return whether the function that a line calls is in a loop over data, for one rank.

    Who is behind that line has come back from it, and so out of its loop.
    """
    below = path[path.index(caller) + 1 :]
    if not below:
        return False
    line = text(below[0])
    depth = indent(line) if line is not None else 0
    for number in range((below[0].line or 1) - 1, 0, -1):
        above = text(replace(below[0], line=number))
        if above is None:
            return False
        if not above.strip() or above.lstrip().startswith("#") or indent(above) >= depth:
            continue
        depth = indent(above)
        if _LOOP.match(above):
            return _OF_A_MODEL.search(above) is None
        if above.lstrip().startswith(("def ", "async def ")):
            return False
    return False

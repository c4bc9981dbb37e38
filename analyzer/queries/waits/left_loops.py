"""Which loop one rank is in and another has left, as their paths and the source tell."""

import re
from collections.abc import Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, replace
from whyhang.analyzer.findings.signature import INCOMPLETE
from whyhang.analyzer.queries.waits.states import await_messages
from whyhang.analyzer.rank_state.state import IN_STEP, RankState, Status
from whyhang.analyzer.stacks import LineText, WaitKind
from whyhang.analyzer.stacks.kinds import last_name
from whyhang.analyzer.stacks.source_blocks import (
    LITERAL,
    LOOP,
    heads,
    indent,
    loops_around,
    may_be_in_branch,
    may_be_left_within,
    rank_branch,
)
from whyhang.analyzer.stacks.source_paths import called_first, condition_apart, fork
from whyhang.analyzer.stacks.usercode import COMPREHENSIONS
from whyhang.analyzer.wording.describe import path_of, quoted
from whyhang.analyzer.wording.ways_past import kept_in_words, left_in_words

_HANDLER = re.compile(r"\s*(?:finally|except\b.*):")

_IN_BRACKETS = re.compile(r"\bfor\b.*")

_OF_A_MODEL = re.compile(
    r"param|grad|bucket|tensor|layer|module|weight|buffer|rank|world|group"
    r"|handle|request|future|pending|\bworks?\b|callback|hook|plugin|listener|metric",
    re.IGNORECASE,
)
"""A loop over parts of a model, ranks or calls: to be out of it is to be further in the step."""


_SHARE = re.compile(r"\b(?!(?:range|len|enumerate|zip|reversed|sorted|list)\()\w+\([^()]*\)")
"""A call that is looped over: what it is given may be the rank, for its share of the data."""


def left_blocks(text: LineText, past: Frame, inside: Frame) -> Iterator[Frame]:
    """Yield the heads of the blocks that ``inside`` is in, and ``past``, further down, is not."""
    here = text(past)
    depth = indent(here) if here is not None else 0
    return (head for head in heads(inside, text) if indent(text(head) or "") >= depth)


def is_over_data(line: str) -> bool:
    """Return whether a line opens a loop that is not over parts of a model, ranks or calls."""
    called = [call.partition("(")[0] for call in _SHARE.findall(line)]
    over = " ".join((_SHARE.sub("", line), *called))
    return LOOP.match(line) is not None and _OF_A_MODEL.search(over) is None


def went_on(case: Case, state: RankState, other: RankState) -> bool:
    """Return whether a rank has left the loop of another, and neither has a part of its own."""
    own = any(rank_branch(path_of(case, each), case.text) for each in (state, other))
    return not own and has_left(case, state, other) == 1.0


def has_left(case: Case, state: RankState, other: RankState) -> float:
    """Return how sure it is that ``state`` has left the loop of ``other``; 0 is: not at all."""
    text = case.text
    forked = fork(path_of(case, state), path_of(case, other))
    if forked is None:
        caller = called_first(path_of(case, state), path_of(case, other), text)
        in_loop = caller is not None and in_loop_below(text, caller, path_of(case, other))
        return 1.0 if in_loop and state.status in IN_STEP else 0.0
    mine, its = forked
    if mine.line is None or its.line is None or mine.line <= its.line:
        return 0.0
    here, there = text(mine), text(its)
    if here is not None and there is not None:
        around = {*heads(mine, text)}
        apart = around - {*heads(its, text)}
        if any(_HANDLER.match(text(head) or "") for head in apart):
            return 0.0  # an exception may have led there, and not the end of the data
        again = any(LOOP.match(text(head) or "") for head in around - apart)
        held = state.status is Status.BLOCKED or rank_branch([mine], text) in apart
        if again and (held or _under_own_condition(case, state, other)):
            return 0.0  # the others came past what holds it up, and may have come around again
        left = _leaves_loop(text, its, indent(here)) or any(
            is_over_data(text(head) or "") and not _is_as_long_for_all(text, head, its)
            for head in heads(its, text)
            if head not in around
        )
        waits = state.status in IN_STEP
        own_part = _is_part_of_some([its], text)
        given = its in around  # by a generator, which stands in its loop meanwhile
        below = waits and not (own_part or given)
        below = below and in_loop_below(text, its, path_of(case, other))
        return 1.0 if left or below else 0.0
    # A barrier further down may as well be the bug itself; shutting down is past any loop.
    return INCOMPLETE if state.kind is WaitKind.TEARDOWN else 0.0


_COUNTS_TURNS = re.compile(r"(?i)%|epoch|step|iter|batch|every|last|final")
"""A condition on the number of a turn, which is alike on all ranks."""


def _under_own_condition(case: Case, state: RankState, other: RankState) -> bool:
    """Return whether a rank's call stands under a condition on what it has measured itself.

    Others may have answered it differently and come past the call; not where it counts turns, or
    asks for an option, which is alike on all ranks.
    """
    line = condition_on(case, state, other)
    return re.search("[<>]", line) is not None and not only_counts_turns(line)


def condition_on(case: Case, state: RankState, other: RankState) -> str:
    """Return the line of the condition that a rank's call stands under, and ``other`` does not.

    Not one that is alike on all ranks, as far as is seen; empty without one.
    """
    condition = condition_apart(path_of(case, state), path_of(case, other), case.text)
    return (case.text(condition) or "") if condition is not None else ""


def only_counts_turns(line: str) -> bool:
    """Return whether a condition asks for the number of a turn, which is alike on all ranks."""
    return _COUNTS_TURNS.search(line) is not None


_PICKED = re.compile(r"\]\s*\(|\bif\b.*\belse\b|(?i:rank|role)")


def _is_part_of_some(path: Sequence[Frame], text: LineText) -> bool:
    """Return whether a line may call what only some ranks run: by their numbers, in a branch."""
    return may_be_in_branch(path, text) or any(_PICKED.search(text(f) or "") for f in path)


def _leaves_loop(text: LineText, inside: Frame, to: int) -> bool:
    """Return whether going from a line out to an indent leaves a loop, not only ifs and withs.

    Where the source is not kept that far, being less deep has to do.
    """
    depth = indent(text(inside) or "")
    for head in heads(inside, text):
        line = text(head) or ""
        depth = indent(line)
        if depth < to:
            return False
        if LOOP.match(line) and not _is_as_long_for_all(text, head, inside):
            return True
    return to < depth


def _is_as_long_for_all(text: LineText, loop: Frame, inside: Frame) -> bool:
    """Return whether a loop goes over what is written there, and nothing seen in it leaves it."""
    literal = LITERAL.search(text(loop) or "")
    return literal is not None and not may_be_left_within(loop, inside, text)


def in_loop_below(text: LineText, caller: Frame, path: list[Frame]) -> bool:
    """Return whether the function that a line calls is in a loop over data, for one rank.

    Who is behind that line has come back from it, and so out of its loop.
    """
    below = path[path.index(caller) + 1 :]
    if not below or (last_name(below[0]) == "forward" and "forward(" not in (text(caller) or "")):
        return False  # a module, which is called by itself, goes over its parts
    if last_name(below[0]) in COMPREHENSIONS:
        match = _IN_BRACKETS.search(text(below[0]) or "")
        return match is not None and not LITERAL.search(match[0]) and is_over_data(match[0])
    loops = (
        text(head) or ""
        for head in _loops_around(below, text)
        if not _is_as_long_for_all(text, head, below[0])
    )
    return is_over_data(next(loops, ""))


YIELDS = 8  # lines around the place of a generator in which it gives something


def _loops_around(path: Sequence[Frame], text: LineText) -> Iterator[Frame]:
    """Yield the loops that the first frame of a path is in, innermost first.

    The one at whose head it stands as well, where what that calls is a generator.
    """
    frame, *below = path
    around = range(-YIELDS, YIELDS)
    near = (replace(f, line=max(1, (f.line or 0) + n)) for f in below[:1] for n in around)
    if any(re.search(r"\byield\b", text(line) or "") for line in near):
        yield from (head for head in [frame] if LOOP.match(text(head) or ""))
    yield from loops_around(frame, text)


def loop_between(text: LineText, past: list[Frame], inside: list[Frame]) -> Frame | None:
    """Return the head of the outermost loop that one rank is in and the other has left."""
    forked = fork(past, inside)
    caller = called_first(past, inside, text) if forked is None else None
    if caller is not None:
        forked = (caller, caller)
    if forked is None:
        return None
    own = [head for head in left_blocks(text, *forked) if head not in {*heads(forked[0], text)}]
    below = inside[inside.index(forked[1]) + 1 :]
    paths = (below[number:] for number in range(len(below)))
    loops = (*reversed(own), *(h for path in paths for h in reversed([*_loops_around(path, text)])))
    return next((head for head in loops if LOOP.match(text(head) or "")), None)


def loop_left_in_words(case: Case, state: RankState, other: RankState) -> str:
    """Return the loop that ``other`` is in and ``state`` has left, in words; empty for none."""
    loop = loop_between(case.text, path_of(case, state), path_of(case, other))
    return f"the loop {quoted(loop, case.text)}" if loop is not None else ""


def came_past_in_words(
    case: Case, some: Sequence[int], others: Sequence[int], said: str = ""
) -> str:
    """Say which of two sides that wait for each other has come past the call of the other, and how.

    By a way out of its function or loop, by the end of a loop that the other is in, or as a
    condition did not hold for it. Empty where nothing tells, or it was ``said`` already.
    """
    sides = ((some, others), (others, some))
    for past, waits in sides:
        if words := left_in_words(case, past, waits, said):
            return words
    for past, waits in sides:
        state, other = case.states[past[0]], case.states[waits[0]]
        if went_on(case, state, other) and (loop := loop_left_in_words(case, state, other)):
            has = "has" if len(past) == 1 else "have"
            wait = "waits" if len(waits) == 1 else "wait"
            asks = condition_apart(path_of(case, other), path_of(case, state), case.text)
            under = f" under {quoted(asks, case.text)}" if asks is not None else ""
            inside = f"in which {case.names(waits)} {wait}{under}"
            return f"; {case.names(past)} {has} left {loop} {inside}"
    if await_messages([case.states[n] for side in sides[0] for n in side[:1]]):
        return ""  # who sends and who receives has a part of its own
    return next((words for p, w in sides if (words := kept_in_words(case, p, w))), "")

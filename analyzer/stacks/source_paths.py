"""Where the paths of two ranks through the source part, and which of them came first."""

import itertools
import re
from collections.abc import Sequence
from itertools import pairwise

from whyhang.analyzer.facts import Frame, StackDump
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.stacks.kinds import LineText, last_name
from whyhang.analyzer.stacks.source_blocks import (
    BRANCH,
    LITERAL,
    SAME_FOR_ALL,
    heads,
    returns_above,
)
from whyhang.analyzer.stacks.usercode import user_path


def own_path(dumps: Sequence[StackDump]) -> list[Frame]:
    """Return the user's own frames of the main thread in its last stack, outermost first."""
    thread = main_thread(dumps[-1]) if dumps else None
    return user_path(thread.frames) if thread is not None else []


def fork(mine: Sequence[Frame], its: Sequence[Frame]) -> tuple[Frame, Frame] | None:
    """Return the function in which two paths part, at the line of each."""
    for a, b in zip(mine, its, strict=False):
        if (a.function, a.file) != (b.function, b.file):
            return None
        if a.line != b.line:
            return (a, b)
    return None


def called_first(mine: Sequence[Frame], its: Sequence[Frame], text: LineText) -> Frame | None:
    """Return the line on which two paths part, if what ``its`` is in is an argument of the other.

    As in ``backward(forward(batch))``: who is in the outer call has come back from the inner one.
    """
    shared = [a for a, b in zip(mine, its, strict=False) if a == b]
    at = len(shared)
    if not shared or shared != list(mine[:at]) or at >= min(len(mine), len(its)):
        return None
    outer, inner = f"{last_name(mine[at])}(", f"{last_name(its[at])}("
    _, found, arguments = (text(shared[-1]) or "").partition(outer)
    before = arguments.partition(inner)
    open_yet = before[0].count("(") - before[0].count(")")
    return shared[-1] if found and before[1] and open_yet >= 0 else None


_OF_RANKS = re.compile(r"(?i)rank|role|is_(?:main|master|root|chief|lead)")
_CHOICE = re.compile(r"\s*(?:if|elif|else|except|case)\b")
_LOOP_OVER = re.compile(r"\s*(?:async\s+)?for\s+(?P<names>[^:]+?)\s+in\b")


def two_calls(
    mine: Sequence[Frame], its: Sequence[Frame], text: LineText
) -> tuple[Frame, Frame] | None:
    """Return where two paths to one function part, if they are two calls of it, one after another.

    At two lines of which one is passed by everybody, or in what one line calls in turn. Not where
    the ranks may take different ways by right: at a choice, or by their numbers.
    """
    forked = fork(mine, its)
    if forked is not None:
        around = [{*heads(frame, text)} for frame in forked]
        shared_heads = around[0] & around[1]
        own = [[text(head) or "" for head in each - shared_heads] for each in around]
        lines = [text(frame) for frame in forked]
        of_ranks = any(_OF_RANKS.search(line or "") for line in (*lines, *own[0], *own[1]))
        always = any(not any(map(_CHOICE.match, those)) for those in own)
        return forked if None not in lines and always and not of_ranks else None
    shared = next((n for n, (a, b) in enumerate(zip(mine, its, strict=False)) if a != b), 0)
    if not shared:
        return None
    line = text(mine[shared - 1]) or ""
    loops = (_LOOP_OVER.match(text(head) or "") for head in heads(mine[shared - 1], text))
    names = {name for loop in loops if loop for name in re.findall(r"\w+", loop["names"])}
    in_turn = any(re.search(rf"\b{name}\b", line) for name in names)
    return (mine[shared], its[shared]) if in_turn and not _OF_RANKS.search(line) else None


_STRAIGHT = re.compile(r"\s*(?:async\s+)?(?:with|try)\b")


def comes_first(path: Sequence[Frame], other: Sequence[Frame], text: LineText) -> bool:
    """Return whether who stands at the end of ``other`` has come through ``path``.

    Its function goes on there further down, and each line names the next function, with no loop or
    condition around it and no return above: who was not in the call has turned off before.
    """
    forked = fork(path, other)
    if forked is None or (forked[0].line or 0) >= (forked[1].line or 0):
        return False
    shared = {*heads(forked[1], text)}
    inside = path[path.index(forked[0]) :]
    around = [head for frame in inside for head in heads(frame, text) if head not in shared]
    named = all(last_name(b) in (text(a) or "") for a, b in pairwise(inside))
    straight = all(_STRAIGHT.match(text(h) or "") for h in around)
    returns = any(returns_above(frame, text) for frame in inside[1:])
    return named and bool(text(inside[-1])) and straight and not returns


_CONDITION = re.compile(r"\s*(?:(?:el)?if|while)\b(?! True\b| 1\b)")

_FOR = re.compile(r"\s*(?:async\s+)?for\b")

_ALIKE = re.compile(rf"{LITERAL.pattern}|param|grad|bucket|layer|module|tensor")
"""What a loop goes over that is as long on all ranks: numbers written there, parts of a model."""


def apart_by(path: Sequence[Frame], other: Sequence[Frame], text: LineText) -> list[Frame]:
    """Return the innermost condition, and the innermost loop over data, that ``other`` is not in.

    Of all blocks around ``path`` from the function on in which the two part.
    """
    forked = fork(path, other)
    if forked is None:
        return []
    shared = {*heads(forked[1], text)}
    inside = reversed(path[path.index(forked[0]) :])
    around = [head for frame in inside for head in heads(frame, text) if head not in shared]
    lines = [(head, text(head) or "") for head in around]
    asks = (h for h, line in lines if _CONDITION.match(line) and not SAME_FOR_ALL.search(line))
    loops = (h for h, line in lines if _FOR.match(line) and not _ALIKE.search(line))
    return [*itertools.islice(asks, 1), *itertools.islice(loops, 1)]


def condition_apart(path: Sequence[Frame], other: Sequence[Frame], text: LineText) -> Frame | None:
    """Return the innermost condition around ``path`` that ``other`` is not in, if it is an if."""
    blocks = apart_by(path, other, text)
    return next((block for block in blocks if BRANCH.match(text(block) or "")), None)

"""The lines around a call by which a rank may have gone past it, out of a loop or a function."""

import re
from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import Frame
from whyhang.analyzer.stacks.kinds import LineText, last_name
from whyhang.analyzer.stacks.source_blocks import (
    ASKS_RANK,
    BRANCH,
    FUNCTION,
    MAX_BLOCK,
    block,
    differs,
    heads,
    indent,
    lines_at,
    loops_around,
)
from whyhang.analyzer.stacks.usercode import COMPREHENSIONS

MAX_BELOW = 60
"""Lines below a call that are looked at for the one that undoes it."""

_WAY_OUT = re.compile(r"\s*(?:return|raise|break|continue)\b")


def exits_before(frame: Frame, word: str, text: LineText) -> Iterator[Frame]:
    """Yield the lines below a frame that leave its function, loop or turn before ``word`` comes.

    Not those with it above them in their block.
    ``word`` is what the function calls to undo what it has begun on the line of the frame.
    """
    here = text(frame)
    depth = indent(here) if here is not None else 0
    undone: int | None = None  # how deep the block is in which the word stands above
    for at, line in lines_at(frame, _below(frame), text):
        if not line.strip():
            continue
        if indent(line) < depth or (word in line and indent(line) == depth):
            return
        if undone is not None and indent(line) < undone:
            undone = None
        if word in line:
            undone = indent(line)
        elif _WAY_OUT.match(line) and undone is None:
            yield at


def _below(frame: Frame) -> range:
    return range((frame.line or 0) + 1, (frame.line or 0) + MAX_BELOW)


_LEAVES = re.compile(r"return\b|(?P<break>break)\b")

_SUPPRESSES = re.compile(r"\s*with\b.*\bsuppress\(")


def ways_out(frame: Frame, text: LineText) -> Iterator[tuple[Frame, Frame]]:
    """Yield the lines that lead out of a frame's function or loop, and on what condition.

    The nearest first: those above the frame, and those further down in a loop that it is in, in an
    earlier turn. Who came back from the function without this frame's call may have left so. What
    leaves a loop that the frame is not in leads to the frame.
    """
    around = {*heads(frame, text)}
    for at in _lines_nearby(frame, text):
        how = _LEAVES.match((text(at) or "").lstrip())
        if how is None:
            continue
        if how["break"] and next(loops_around(at, text), at) not in around:
            continue
        condition = next(heads(at, text), None)
        if condition is not None and differs(text(condition) or ""):
            yield at, condition


def _lines_nearby(frame: Frame, text: LineText) -> Iterator[Frame]:
    """Yield the lines of a function above a frame, upwards, then those below it in its loops."""
    for at, line in lines_at(frame, range((frame.line or 1) - 1, 0, -1), text):
        if line.lstrip().startswith(FUNCTION):
            break
        yield at
    loops = [indent(text(head) or "") for head in loops_around(frame, text)]
    for at, line in lines_at(frame, _below(frame) if loops else (), text):
        if line.strip() and indent(line) <= min(loops):
            return
        yield at


def errors_passed(frame: Frame, text: LineText) -> Iterator[Frame]:
    """Yield what around a frame takes an error and goes on, innermost first.

    Whoever called the function learns nothing of it then, also where the handler returns.
    """
    for head in heads(frame, text):
        yield from takers(head, frame, text)


def takers(head: Frame, inside: Frame, text: LineText) -> Iterator[Frame]:
    """Yield what takes the errors of the block that a line opens, so that the program goes on."""
    line = text(head) or ""
    if _TRY.match(line):
        yield from _swallowing(head, inside, text, returns=True)
    elif _SUPPRESSES.match(line):
        yield head


def turned_off(path: Sequence[Frame], text: LineText) -> Frame | None:
    """Return the branch on the rank's number in a loop that keeps some ranks from its call.

    The innermost loop that a frame of ``path`` is in. The branch is around the frame, or stands
    above it and leaves the loop, the turn or the function.
    """
    for frame in reversed(path):
        loop = next(loops_around(frame, text), None)
        numbers = range(frame.line or 0, loop.line or 0, -1) if loop is not None else ()
        for at, line in lines_at(frame, numbers, text):
            asks = BRANCH.match(line) and ASKS_RANK.search(line)
            if asks and (at in {*heads(frame, text)} or _leaves(at, text)):
                return at
    return None


_LEAVING = re.compile(r"(?:return|break|continue)\b")


def _leaves(branch: Frame, text: LineText) -> bool:
    """Return whether what a branch holds leaves the loop, its turn or the function."""
    behind = (text(branch) or "").partition(":")[2]
    below = block(branch, text, (branch.line or 0) + MAX_BLOCK)
    return any(_LEAVING.match(line.strip()) for line in (behind, *below))


_TRY = re.compile(r"\s*try\b")

_EXCEPT = re.compile(r"\s*except\b")

_BY_HAND = re.compile(r"\s*except \(?KeyboardInterrupt\b[^,]*:")

_RAISES = re.compile(r"raise\b|.*\b_?exit\(|.*\babort\(")

_GIVES_UP = re.compile(rf"return\b|break\b|{_RAISES.pattern}")
"""A line after which a handler does not go on with the program as if nothing had been."""

_ENDS_TURN = re.compile(r"(?P<head>(?:el)?if\b.*:)?\s*(?P<how>continue|return)\b")

_NO_SYNC = re.compile(r"\bno_sync\(")
"""With it, DDP and FSDP leave out the reduction of gradients."""


def ways_round(loop: Frame | None, path: Sequence[Frame], text: LineText) -> Iterator[Frame]:
    """Yield the lines by which a turn of a loop may go by without the call that ``path`` ends in.

    The nearest to the call first: the condition of a ``continue`` or ``return`` above it, or of
    what leaves a loop within the turn, a handler around it that goes on after an error, gradients
    that are not to be reduced. Without a loop it is that of the last comprehension.
    """
    starts = (
        number
        for number, frame in enumerate(path)
        if (loop in {*heads(frame, text)} if loop else last_name(frame) in COMPREHENSIONS)
    )
    start = next(starts, len(path))
    for frame in reversed(path[start:]):
        around = {*heads(frame, text)}
        first = (loop.line or 0) if loop is not None and frame is path[start] else 0
        for at, line in lines_at(frame, range((frame.line or 1) - 1, first, -1), text):
            if line.lstrip().startswith(FUNCTION):
                break
            if _TRY.match(line) and at in around:
                yield from _swallowing(at, frame, text, returns=frame is not path[start])
            elif _NO_SYNC.search(line):
                yield at
            elif ends_turn := _ENDS_TURN.match(line.strip()):
                head = at if ends_turn["head"] else next(heads(at, text), at)
                of = next(loops_around(at, text), None)
                leaves = ends_turn["how"] == "return" and frame is path[start]  # the loop as well
                if differs(text(head) or "") and not leaves and (of is None or of in around):
                    yield head
        within = {each for each in loops_around(frame, text) if (each.line or 0) > first}
        for way, condition in ways_out(frame, text) if within else ():
            if next(loops_around(way, text), None) in within:
                yield condition


def _swallowing(tries: Frame, inside: Frame, text: LineText, *, returns: bool) -> Iterator[Frame]:
    """Yield the handlers of a ``try`` around a frame after which the program goes on.

    ``returns``: it goes on, too, once the function has returned.
    """
    ends = _RAISES if returns else _GIVES_UP
    depth = indent(text(tries) or "")
    handler: Frame | None = None
    body: int | None = None  # how deep the lines of the handler are: further in, a condition holds
    for at, line in lines_at(inside, _below(inside), text):
        if not line.strip():
            continue
        if indent(line) > depth:
            body = indent(line) if body is None else body
            always = indent(line) <= body
            handler = None if handler and always and ends.match(line.strip()) else handler
            continue
        if handler is not None:
            yield handler
        if indent(line) < depth or not _EXCEPT.match(line):
            return
        handler, body = (None if _BY_HAND.match(line) else at), None
    if handler is not None:
        yield handler

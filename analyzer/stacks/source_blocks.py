"""The blocks of source around a frame: the loops and branches that it stands in.

Read off the indentation of the lines that a collector kept; what it did not keep ends the search.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from whyhang.analyzer.facts import Frame, replace
from whyhang.analyzer.stacks.kinds import LineText, last_name
from whyhang.analyzer.stacks.usercode import COMPREHENSIONS

_FUNCTION = ("def ", "async def ", "class ", "lambda ")
_RANK = re.compile(
    r"""
      (?:\b|[._]|\bmy)rank(?:\(\))? \s*
        (?: == | != | <[^<] | >[^>] | % | :\s*$ | \b(?:in|and|or|not)\b )
    | \br \s* (?:==|!=) \s* \d
    | \bnot \s+ (?:[\w.]*[._])?rank\b
    | \bget_rank\(
    | \bis_(?:main|master|global|world|local|root|rank|first|last|chief|saving)\w*
    | \b(?:main|master|process)_(?:process|index)\b
    """,
    re.VERBOSE,
)
"""What a condition asks that depends on the number of the rank."""

_UNTIL_REMOVED = re.compile(
    r"\s*(?:except \(?[\w., ]*\bFileExistsError\b"
    r"|while (?!not\b)(?=[^#]*(?i:lock))[^#]*\b(?:l?exists|isfile|is_file)\()"
)
"""The head of a block in which somebody waits until a file is gone, which another has made.

A loop that goes on while any file is there may be a service: the condition has to speak of a lock.
"""

_WHILE = re.compile(r"\s*while\b")
_ASKS_FILE = re.compile(r"\b(?:l?exists|isfile|is_file|isdir|is_dir|listdir|scandir|i?glob)\(")
_SLEEPS = re.compile(r"\bsleep\(")

MAX_BLOCK = 12
"""Lines of a branch that are looked at for one that leaves the loop."""

MAX_BELOW = 60
"""Lines below a call that are looked at for the one that undoes it."""

_BRANCH = re.compile(r"\s*(?:el)?if\b")
_ELSE = re.compile(r"\s*(?:else\b|elif\b)")


def indent(text: str) -> int:
    """Return how many characters a line is indented by."""
    return len(text) - len(text.lstrip())


def heads(frame: Frame, text: LineText) -> Iterator[Frame]:
    """Yield the lines that open the blocks around a frame, innermost first, out to its function.

    Lines that were not kept are passed over. What stands around a lambda or a comprehension is of
    another function.
    """
    if last_name(frame) in {"<lambda>", *COMPREHENSIONS}:
        return
    here = text(frame)
    depth = indent(here) if here is not None else 0
    for number in range((frame.line or 1) - 1, 0, -1):
        if depth == 0:
            return
        at = replace(frame, line=number)
        line = text(at) or ""
        if not line.strip() or line.lstrip().startswith("#") or indent(line) >= depth:
            continue
        if line.lstrip().startswith(_FUNCTION):
            return
        depth = indent(line)
        yield at


def waits_for_removal(frame: Frame, text: LineText) -> bool:
    """Return whether a frame sleeps until a file is gone: a lock that a program has made itself."""
    return any(_UNTIL_REMOVED.match(text(head) or "") for head in heads(frame, text))


def awaited_file(frame: Frame, text: LineText) -> Frame | None:
    """Return the head of the loop in which a frame looks again and again whether a file is there.

    It sleeps in between: a ``while`` that asks for it in its head, or in the lines below.
    """
    at_head = _WHILE.match(text(frame) or "") is not None
    loops = (head for head in heads(frame, text) if _WHILE.match(text(head) or ""))
    loop = frame if at_head else next(loops, None)
    if loop is None:
        return None
    depth, lines = indent(text(loop) or ""), [text(loop) or ""]
    for number in range((loop.line or 0) + 1, (loop.line or 0) + MAX_BLOCK):
        line = text(replace(loop, line=number)) or ""
        if line.strip() and indent(line) <= depth:
            break
        lines.append(line)
    asks, sleeps = (any(each.search(line) for line in lines) for each in (_ASKS_FILE, _SLEEPS))
    return loop if asks and sleeps else None


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
    returns = any(_returns_above(frame, text) for frame in inside[1:])
    return named and bool(text(inside[-1])) and straight and not returns


def lines_above(frame: Frame, text: LineText) -> Iterator[str]:
    """Yield the lines of a function above the one where a frame stands, the nearest first."""
    for number in range((frame.line or 1) - 1, 0, -1):
        line = (text(replace(frame, line=number)) or "").lstrip()
        if line.startswith(_FUNCTION):
            return
        yield line


_WAY_OUT = re.compile(r"\s*(?:return|raise|break|continue)\b")


def exits_before(frame: Frame, word: str, text: LineText) -> Iterator[Frame]:
    """Yield the lines below a frame that leave its function, loop or turn before ``word`` comes.

    Not those with it above them in their block.
    ``word`` is what the function calls to undo what it has begun on the line of the frame.
    """
    here = text(frame)
    depth = indent(here) if here is not None else 0
    undone: int | None = None  # how deep the block is in which the word stands above
    for number in range((frame.line or 0) + 1, (frame.line or 0) + MAX_BELOW):
        line = text(replace(frame, line=number))
        if line is None or not line.strip():
            continue
        if indent(line) < depth or (word in line and indent(line) == depth):
            return
        if undone is not None and indent(line) < undone:
            undone = None
        if word in line:
            undone = indent(line)
        elif _WAY_OUT.match(line) and undone is None:
            yield replace(frame, line=number)


_LEAVES = re.compile(r"return\b|(?P<break>break)\b")
_SUPPRESSES = re.compile(r"\s*with\b.*\bsuppress\(")


def ways_out_above(frame: Frame, text: LineText) -> Iterator[tuple[Frame, Frame]]:
    """Yield the lines above a frame that lead out of its function or loop, and on what condition.

    The nearest first; who came back from the function without this frame's call may have left so.
    What leaves a loop that the frame is not in leads to the frame.
    """
    around = {*heads(frame, text)}
    for number in range((frame.line or 1) - 1, 0, -1):
        at = replace(frame, line=number)
        line = (text(at) or "").lstrip()
        if line.startswith(_FUNCTION):
            return
        how = _LEAVES.match(line)
        if how is None:
            continue
        blocks = list(heads(at, text))
        loop = next((head for head in blocks if _LOOP.match(text(head) or "")), at)
        if how["break"] and loop not in around:
            continue
        asks = text(blocks[0]) or "" if blocks else ""
        if _BRANCH.match(asks) and not _SAME_FOR_ALL.search(asks):
            yield at, blocks[0]


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


def _returns_above(frame: Frame, text: LineText) -> bool:
    """Return whether a function may have been left above the line where a frame stands."""
    return any(line.startswith("return") for line in lines_above(frame, text))


_SIGNAL = re.compile(
    r"def \w+\((?:self,\s*|cls,\s*)?_*(?:sig\w*|s)\b[^,()]*,\s*_*(?:(?:stack_?)?frame|stack|f|_)\b"
)
"""What Python calls with the number of a signal and the frame that it came in."""


def unasked(path: Sequence[Frame], text: LineText) -> tuple[Frame, str] | None:
    """Return the innermost frame of a function that Python called by itself, and what that is.

    A signal's handler or a finalizer runs at any line of the program. ``path`` are the user's own
    frames of a stack, outermost first.
    """
    for frame, caller in zip(reversed(path), reversed(path[:-1]), strict=False):
        name = last_name(frame)
        if name == "__del__":
            return frame, "a finalizer"
        if name not in (text(caller) or name) and _SIGNAL.search(_definition(frame, text)):
            return frame, "a signal's handler"
    return None


def _definition(frame: Frame, text: LineText) -> str:
    """Return the line that defines the function of a frame; empty where it was not kept."""
    start = f"def {last_name(frame)}("
    lines = (text(replace(frame, line=n)) or "" for n in range(frame.line or 0, 0, -1))
    return next((line for line in lines if start in line), "")


def rank_branch(path: Sequence[Frame], text: LineText) -> Frame | None:
    """Return the innermost branch around any of these frames that depends on the rank's number.

    ``path`` are the user's own frames of a stack, outermost first.
    """
    for frame in reversed(path):
        for head in heads(frame, text):
            line = text(head) or ""
            if _BRANCH.match(line) and _RANK.search(line):
                return head
    return None


_CONDITION = re.compile(r"\s*(?:(?:el)?if|while)\b(?! True\b| 1\b)")
_SAME_FOR_ALL = re.compile(
    r"__name__|\bis_(?:initialized|available|distributed)\b|world_?size|\btraining\b|\bddp\b"
)
"""What a condition asks that is answered alike on all ranks."""

_FOR = re.compile(r"\s*(?:async\s+)?for\b")
_ALIKE = re.compile(
    r"\bin\s*(?:[(\[]\s*[\"'\d]|range\([\d_,\s]+\)\s*:)|param|grad|bucket|layer|module|tensor"
)
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
    asks = (h for h, line in lines if _CONDITION.match(line) and not _SAME_FOR_ALL.search(line))
    loops = (h for h, line in lines if _FOR.match(line) and not _ALIKE.search(line))
    found = (next(asks, None), next(loops, None))
    return [head for head in found if head is not None]


def turned_off(path: Sequence[Frame], text: LineText) -> Frame | None:
    """Return the branch on the rank's number in a loop that keeps some ranks from its call.

    The innermost loop that a frame of ``path`` is in. The branch is around the frame, or stands
    above it and leaves the loop, the turn or the function.
    """
    for frame in reversed(path):
        around = list(heads(frame, text))
        loops = [head for head in around if _LOOP.match(text(head) or "")]
        for number in range(frame.line or 0, loops[0].line or 0, -1) if loops else ():
            line = replace(frame, line=number)
            asks = _BRANCH.match(text(line) or "") and _RANK.search(text(line) or "")
            if asks and (line in around or _leaves(line, text)):
                return line
    return None


_LEAVING = re.compile(r"(?:return|break|continue)\b")


def _leaves(branch: Frame, text: LineText) -> bool:
    """Return whether what a branch holds leaves the loop, its turn or the function."""
    line = text(branch) or ""
    if _LEAVING.match(line.partition(":")[2].strip()):
        return True
    for number in range((branch.line or 0) + 1, (branch.line or 0) + MAX_BLOCK):
        below = text(replace(branch, line=number)) or ""
        if below.strip() and indent(below) <= indent(line):
            return False
        if _LEAVING.match(below.strip()):
            return True
    return False


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

    The nearest to the call first: the condition of a ``continue`` or ``return`` above it, a
    handler around it that goes on after an error, gradients that are not to be reduced. Without a
    loop it is that of the last comprehension.
    """
    turns = (
        loop in {*heads(frame, text)} if loop is not None else last_name(frame) in COMPREHENSIONS
        for frame in path
    )
    start = next((number for number, is_it in enumerate(turns) if is_it), None)
    if start is None:
        return
    for frame in reversed(path[start:]):
        around = {*heads(frame, text)}
        first = (loop.line or 0) if loop is not None and frame is path[start] else 0
        for number in range((frame.line or 1) - 1, first, -1):
            at = replace(frame, line=number)
            line = text(at) or ""
            if line.lstrip().startswith(_FUNCTION):
                break
            if _TRY.match(line) and at in around:
                yield from _swallowing(at, frame, text, returns=frame is not path[start])
            elif _NO_SYNC.search(line):
                yield at
            elif ends_turn := _ENDS_TURN.match(line.strip()):
                head = at if ends_turn["head"] else next(heads(at, text), at)
                of = next((h for h in heads(at, text) if _LOOP.match(text(h) or "")), None)
                leaves = ends_turn["how"] == "return" and frame is path[start]  # the loop as well
                asks = text(head) or ""
                if (
                    not leaves
                    and (of is None or of in around)
                    and _BRANCH.match(asks)
                    and not _SAME_FOR_ALL.search(asks)
                ):
                    yield head


def _swallowing(block: Frame, inside: Frame, text: LineText, *, returns: bool) -> Iterator[Frame]:
    """Yield the handlers of a ``try`` around a frame after which the program goes on.

    ``returns``: it goes on, too, once the function has returned.
    """
    ends = _RAISES if returns else _GIVES_UP
    depth = indent(text(block) or "")
    handler: Frame | None = None
    for number in range((inside.line or 0) + 1, (inside.line or 0) + MAX_BELOW):
        at = replace(inside, line=number)
        line = text(at) or ""
        if not line.strip():
            continue
        if indent(line) > depth:
            handler = None if handler and ends.match(line.strip()) else handler
            continue
        if handler is not None:
            yield handler
        if indent(line) < depth or not _EXCEPT.match(line):
            return
        handler = None if _BY_HAND.match(line) else at
    if handler is not None:
        yield handler


_ENDING = re.compile(r"(?:^|:)\s*(?:return|break)\b")


def may_be_left_within(loop: Frame, inside: Frame, text: LineText) -> bool:
    """Return whether a line of the loop's body, as far as it was kept, leaves the loop."""
    depth = indent(text(loop) or "")
    for number in range((loop.line or 0) + 1, (inside.line or 0) + MAX_BLOCK):
        line = text(replace(loop, line=number)) or ""
        if line.strip() and indent(line) <= depth:
            return False
        if _ENDING.search(line.strip()):
            return True
    return False


def may_be_in_branch(path: Sequence[Frame], text: LineText) -> bool:
    """Return whether any of these frames may stand where only some ranks come.

    An ``else`` is not seen to belong to a condition on the rank, nor that it does not.
    """
    if rank_branch(path, text) is not None:
        return True
    return any(_ELSE.match(text(head) or "") for frame in path for head in heads(frame, text))


_LOOP = re.compile(r"\s*(?:async\s+)?(?P<kind>for|while)\b(?:.*?\bin\b(?P<over>.*))?")
_WITHOUT_END = re.compile(r"count\(|cycle|repeat\(|iter|stream|infinite|endless|forever|loop|gen")
_KNOWN = re.compile(r"\b(?:range|enumerate|zip|reversed|sorted|tqdm|trange|list|tuple|set|len)\(")
_CALL = re.compile(r"[\w\])]\(|\byield\b")
_OF_A_DICT = re.compile(r"\.(?:items|keys|values)\(\)")
_CLOCK = r"\b(?:monotonic|perf_counter|process_time|time|now|utcnow)(?:_ns)?\(\)"
_DEADLINE = re.compile(rf"\s*while\b(?!.*\bor\b)(?:.*?{_CLOCK}[^=]*?<|.*?>.*?{_CLOCK})")


def ends(head: Frame, text: LineText) -> bool | None:
    """Return whether the loop that a line opens comes to an end; None where it opens no loop.

    One over a range or a container does, and one until a time has come; one with another condition
    may not, nor one over what a function yields.
    """
    line = (text(head) or "").partition("  #")[0]
    loop = _LOOP.match(line)
    if loop is None:
        return None
    if _DEADLINE.match(line):
        return True
    over = _OF_A_DICT.sub("", _KNOWN.sub("(", loop["over"] or ""))
    return loop["kind"] == "for" and not _WITHOUT_END.search(over) and not _CALL.search(over)

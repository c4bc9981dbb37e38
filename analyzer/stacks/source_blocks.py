"""The blocks of source around a frame: the loops and branches that it stands in.

Read off the indentation of the lines that a collector kept; what it did not keep ends the search.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.facts import Frame, replace
from whyhang.analyzer.stacks.kinds import LineText, last_name
from whyhang.analyzer.stacks.usercode import COMPREHENSIONS

FUNCTION = ("def ", "async def ", "class ", "lambda ")

ASKS_RANK = re.compile(
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

MAX_BLOCK = 12
"""Lines of a branch that are looked at for one that leaves the loop."""

BRANCH = re.compile(r"\s*(?:el)?if\b")

_ELSE = re.compile(r"\s*(?:else\b|elif\b)")


def indent(text: str) -> int:
    """Return how many characters a line is indented by."""
    return len(text) - len(text.lstrip())


def lines_at(frame: Frame, numbers: Iterable[int], text: LineText) -> Iterator[tuple[Frame, str]]:
    """Yield lines of the file that a frame is in, with their text: "" for one not kept."""
    for number in numbers:
        at = replace(frame, line=number)
        yield at, text(at) or ""


def heads(frame: Frame, text: LineText) -> Iterator[Frame]:
    """Yield the lines that open the blocks around a frame, innermost first, out to its function.

    Lines that were not kept are passed over. What stands around a lambda or a comprehension is of
    another function.
    """
    if last_name(frame) in {"<lambda>", *COMPREHENSIONS}:
        return
    here = text(frame)
    depth = indent(here) if here is not None else 0
    for at, line in lines_at(frame, range((frame.line or 1) - 1, 0, -1), text):
        if depth == 0:
            return
        if not line.strip() or line.lstrip().startswith("#") or indent(line) >= depth:
            continue
        if line.lstrip().startswith(FUNCTION):
            return
        depth = indent(line)
        yield at


def loops_around(frame: Frame, text: LineText) -> Iterator[Frame]:
    """Yield the lines that open the loops around a frame, innermost first."""
    return (head for head in heads(frame, text) if LOOP.match(text(head) or ""))


def block(head: Frame, text: LineText, last: int) -> Iterator[str]:
    """Yield the lines of the block that a line opens, before line ``last``; "" for one not kept."""
    depth = indent(text(head) or "")
    for _, line in lines_at(head, range((head.line or 0) + 1, last), text):
        if line.strip() and indent(line) <= depth:
            return
        yield line


def lines_above(frame: Frame, text: LineText) -> Iterator[str]:
    """Yield the lines of a function above the one where a frame stands, the nearest first."""
    for _, line in lines_at(frame, range((frame.line or 1) - 1, 0, -1), text):
        if line.lstrip().startswith(FUNCTION):
            return
        yield line.lstrip()


def returns_above(frame: Frame, text: LineText) -> bool:
    """Return whether a function may have been left above the line where a frame stands."""
    return any(line.startswith("return") for line in lines_above(frame, text))


FINALIZER = "a finalizer"

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
            return frame, FINALIZER
        lines = lines_at(frame, range(frame.line or 0, 0, -1), text)
        definition = next((line for _, line in lines if f"def {name}(" in line), "")
        if name not in (text(caller) or name) and _SIGNAL.search(definition):
            return frame, "a signal's handler"
    return None


_TURNS_OFF = re.compile(r"(?:return|continue)\b")


def guards(frame: Frame, text: LineText) -> Iterator[Frame]:
    """Yield the conditions above a frame, nearest first, where they hold the function is left.

    Or the turn of the loop: ``if rank != 0: return``. Who stands below came past them.
    """
    depth = indent(text(frame) or "")
    for at, line in lines_at(frame, range((frame.line or 1) - 1, 0, -1), text):
        own = line.strip()
        if not own or own.startswith("#") or indent(line) > depth:
            continue
        if own.startswith(FUNCTION):
            return
        inside = [each for each in block(at, text, frame.line or 0) if each.strip()]
        last = inside[-1] if inside else ""
        at_once = indent(last) == min(map(indent, inside), default=0)
        turns_off = at_once and _TURNS_OFF.match(last.strip() or own.rpartition(": ")[2])
        if BRANCH.match(line) and indent(line) == depth and turns_off:
            yield at
        depth = indent(line)


def rank_branch(path: Sequence[Frame], text: LineText) -> Frame | None:
    """Return the innermost condition on the rank's number that these frames depend on.

    A branch around one of them, or one above by which other ranks turn off. ``path`` are the user's
    own frames of a stack, outermost first.
    """
    for frame in reversed(path):
        conditions = [head for head in heads(frame, text) if BRANCH.match(text(head) or "")]
        conditions += guards(frame, text)
        asks = [head for head in conditions if ASKS_RANK.search(text(head) or "")]
        if asks:
            return max(asks, key=lambda head: head.line or 0)
    return None


_THIS_RANK = re.compile(
    r"\s*(?:el)?if (?:\w+\.)*(?:[Gg]et_|global_|world_)*rank(?:\(\))?"
    r" *(?P<how>==|!=) *(?P<rank>\d+) *:"
)
"""A condition on the rank in the whole job and on nothing beside it; not one on a local rank."""


def is_kept_out(rank: int, path: Sequence[Frame], text: LineText) -> bool:
    """Return whether a condition on the rank's number keeps a rank from one of these frames.

    Of the ``else`` of such a branch the line above it tells.
    """
    for frame in path:
        for head in heads(frame, text):
            condition, holds = text(head) or "", True
            if _ELSE.match(condition):
                condition, holds = _condition_above(head, text), False
            asks = _THIS_RANK.match(condition)
            if asks is not None and _holds(asks, rank) is not holds:
                return True
        passed = (_THIS_RANK.match(text(guard) or "") for guard in guards(frame, text))
        if any(asks is not None and _holds(asks, rank) for asks in passed):
            return True
    return False


def _holds(asks: re.Match[str], rank: int) -> bool:
    """Return whether a condition on the rank's number holds for a rank."""
    return (asks["how"] == "==") is (rank == int(asks["rank"]))


def _condition_above(otherwise: Frame, text: LineText) -> str:
    """Return the condition that an ``else`` belongs to; empty where it is none, or not kept."""
    depth = indent(text(otherwise) or "")
    above = lines_at(otherwise, range((otherwise.line or 1) - 1, 0, -1), text)
    return next((line for _, line in above if line.strip() and indent(line) <= depth), "")


SAME_FOR_ALL = re.compile(
    r"__name__|\bis_(?:initialized|available|distributed)\b|world_?size|\btraining\b|\bddp\b"
    r"|if [\w.]*(?:step|epoch|iter(?:ation)?)s? (?:[=<>]=? \d+|% [\w.]+ == \d+):"
)
"""What a condition asks that is answered alike on all ranks."""


def differs(line: str) -> bool:
    """Return whether a line asks for something that ranks may answer differently."""
    return BRANCH.match(line) is not None and not SAME_FOR_ALL.search(line)


_ENDING = re.compile(r"(?:^|:)\s*(?:return|break)\b")


def may_be_left_within(loop: Frame, inside: Frame, text: LineText) -> bool:
    """Return whether a line of the loop's body, as far as it was kept, leaves the loop."""
    body = block(loop, text, (inside.line or 0) + MAX_BLOCK)
    return any(_ENDING.search(line.strip()) for line in body)


def may_be_in_branch(path: Sequence[Frame], text: LineText) -> bool:
    """Return whether any of these frames may stand where only some ranks come.

    An ``else`` is not seen to belong to a condition on the rank, nor that it does not.
    """
    if rank_branch(path, text) is not None:
        return True
    return any(_ELSE.match(text(head) or "") for frame in path for head in heads(frame, text))


LOOP = re.compile(r"\s*(?:async\s+)?(?P<kind>for|while)\b(?:.*?\bin\b(?P<over>.*))?")

LITERAL = re.compile(r"\bin\s*(?:[(\[]\s*[\"'\d]|range\([\d_,\s]+\)\s*:)")
"""What a loop goes over that is written there, and so the same on all ranks."""

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
    loop = LOOP.match(line)
    if loop is None:
        return None
    if _DEADLINE.match(line):
        return True
    over = _OF_A_DICT.sub("", _KNOWN.sub("(", loop["over"] or ""))
    return loop["kind"] == "for" and not _WITHOUT_END.search(over) and not _CALL.search(over)

"""Messages that a mail program or a person broke between two words: in one line again.

Nothing in the text tells for certain that a line goes on in the next one. So lines that may are put
together as a trial, and stay so where a pattern is found in the whole that none of its parts has.
Empty lines stand for those that were put to the one before, so that the others keep their numbers.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

MOST_PARTS = 5  # lines that one message is broken into
SHORTEST = 20  # bytes of a line that may go on

Search = Callable[[bytes], Mapping[int, AbstractSet[int]]]
"""Gives the patterns that are found in each line of a text, by the 0-based number of the line."""

_BEGINS = re.compile(
    rb"[\[{>|#*=<`-]|\d|Traceback\b|File \"|frame #|[A-Z]\w*(?:Error|Exception|Warning)\b"
    rb"|[IWEF]\d{4} |(?:INFO|WARN|WARNING|ERROR|DEBUG)\b|[\w.-]+:(?:\d|\s|$)"
)
"""How a message begins, or a line of a table, a list, a traceback."""

_LABEL = re.compile(rb"\[[^\]\n]{1,40}\]:? |\([^)\n]{1,60}\) ")
"""Of a rank, which each of its lines has."""

_INDENT = re.compile(rb"[ \t]*")


def mended(data: bytes, search: Search) -> bytes:
    """Put lines together in which as a whole ``search`` finds more than in each of them."""
    lines = data.split(b"\n")
    trials = {(at, end): whole for at in range(len(lines)) for end, whole in _trials(lines, at)}
    if not trials:
        return data
    tried = {number for at, end in trials for number in range(at, end)}
    alone = search(b"\n".join(lines[n] if n in tried else b"" for n in range(len(lines))))
    together = search(b"\n".join(trials.values()))
    gains: dict[tuple[int, int], AbstractSet[int]] = {}
    for number, (at, end) in enumerate(trials):
        parts: set[int] = set().union(*(alone.get(line, ()) for line in range(at, end)))
        gains[at, end] = together.get(number, frozenset()) - parts
    after = 0
    for (at, end), gain in gains.items():
        fewer = gains.get((at + 1, end), frozenset()) | gains.get((at, end - 1), frozenset())
        if at >= after and not gain <= fewer:
            lines[at:end] = [trials[at, end], *(b"" for _ in range(at + 1, end))]
            after = end
    return b"\n".join(lines)


def _trials(lines: list[bytes], at: int) -> Iterator[tuple[int, bytes]]:
    """Yield the line at a place with the next one, with the next two and so on: up to, whole."""
    whole = lines[at].rstrip()
    label = _LABEL.match(whole)
    own = label[0] if label is not None else b""
    parts = [line.removeprefix(own) for line in lines[at : at + MOST_PARTS]]
    for before, (number, part) in zip(parts, enumerate(parts[1:], 2), strict=False):
        if not _may_go_on(before, part):
            return
        whole += b" " + part.strip()
        yield at + number, whole


def _may_go_on(line: bytes, after: bytes) -> bool:
    rest = after.strip()
    said = line.strip()
    if len(said) < SHORTEST or said.startswith(b'File "') or not rest or _BEGINS.match(rest):
        return False
    if said.split(None, 1)[0] == rest.split(None, 1)[0]:
        return False  # the name of a container, or of who speaks, stands in front of each line
    indented = len(_INDENT.match(after)[0]) > len(_INDENT.match(line)[0])  # type: ignore[index]
    return rest[:1].islower() or said[-1:] in b":,(" or (indented and said[-1:] not in b".;!?")

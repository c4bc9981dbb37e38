"""Text with stacks in it: found, cut out, freed of colours and prefixes.

What the readers of py-spy, faulthandler, gdb, pystack and traceback text have in common. A
dump may be a file of its own, a few kilobytes in a large log, or the output of many ranks
woven together line by line, each line with its launcher's prefix.
"""

import functools
import html
import itertools
import re
from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import NOBODY, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.files.marks import Marks
from whyhang.collectors.logs.text.line import unwrap
from whyhang.collectors.logs.text.prefix import in_one_piece, is_numbered, skip_clock, split_prefix

PYSPY = (b"(idle)", b"(active)", b"(active+gil)", b"(idle+gil)")
FIRST = (b"(most recent call first)",)
TIMED_OUT = (b"Timeout (0:", b"Timeout (1:")  # faulthandler's words above a dump by timer
LAST = (b"(most recent call last)", b'  File "', b'  File \\"', b'File: "')
GDB = (b"#0 ", b"#1  ", b"\n0  0x", b"frame #0: ", b"Traceback (most recent call first)")
PYSTACK = (b"Traceback for thread ", b"The frame stack for thread ")

_MARKS = Marks(*PYSPY, *FIRST, *TIMED_OUT, *LAST, *GDB, *PYSTACK)

WHOLE_BYTES = 1 << 20  # up to here a file is taken whole
SEARCHED_BYTES = 64 << 20  # larger ones are searched at their beginning and end only
TAIL_BYTES = 6 << 20
BEFORE_BYTES = 2 << 10  # a heading stands before a dump
BEHIND_BYTES = 64 << 10  # and a stack behind its heading
TRIED_LINES = 20  # of those with a mark, to see whether lines have a prefix
AROUND_BYTES = 8 << 10  # of a line, in which all lines must have a number

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(?: [^<>\n]{0,200})?>")


class Passage:
    """A stretch of text in which stacks were found, without prefixes.

    ``who`` is what the prefix of its lines says. ``lines`` are the numbers of its lines, of the
    first one only where they follow each other.
    """

    def __init__(self, text: str, lines: Sequence[int], who: Who = NOBODY) -> None:
        self.text = text
        self.who = who
        self._lines = lines
        self._seen = (0, 0)

    def line(self, offset: int) -> int:
        """Return the line of the file that ``offset`` of ``text`` lies in, counted from 1."""
        at, line = self._seen
        if offset >= at:
            line += self.text.count("\n", at, offset)
        else:
            line -= self.text.count("\n", offset, at)
        self._seen = (offset, line)
        return self._lines[0] + line if len(self._lines) == 1 else self._lines[line]


def holds(document: Document, marks: Sequence[bytes]) -> bool:
    """Tell whether one of the marks is in the document (in a huge one: near an end)."""
    if document.head.startswith(b"\x80"):  # a pickle; no text in UTF-8 begins so
        return False
    return not _marks_of(document).isdisjoint(marks)


@functools.lru_cache(maxsize=2)
def _marks_of(document: Document) -> frozenset[bytes]:
    """Find which marks stand in a document, for all readers at once."""
    if document.size <= len(document.head):
        return _MARKS.within(document.head)
    with document.open() as stream:
        if document.size <= SEARCHED_BYTES:
            return _MARKS.within_file(stream, document.size)
        near_begin = _MARKS.within_file(stream, TAIL_BYTES)
        stream.seek(document.size - TAIL_BYTES)
        return near_begin | _MARKS.within_file(stream, TAIL_BYTES)


def passages(document: Document, marks: Sequence[bytes]) -> Iterator[Passage]:
    """Yield the stretches of a document that hold one of the marks, one for each prefix."""
    for first, data in _searched(document):
        line, at = first, 0
        is_small = document.size <= WHOLE_BYTES
        for start, end in [(0, len(data))] if is_small else _windows(data, marks):
            line += data.count(b"\n", at, start)
            at = start
            text = _decoded(data[start:end])
            if len(text) > limits.MAX_LINE:  # no line of a stack is: nothing is said of those cut
                text, _ = limits.bounded(document, text, line)
            yield from _unwoven(text, line, marks)


def _searched(document: Document) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a file that are searched, each with the number of its first line."""
    if document.size <= len(document.head):
        yield 1, document.head
        return
    with document.open() as stream:
        if document.size <= SEARCHED_BYTES:
            yield 1, stream.read(SEARCHED_BYTES)
            return
        data = stream.read(TAIL_BYTES)
        yield 1, data
        line, left = 1 + data.count(b"\n"), document.size - 2 * TAIL_BYTES
        while left > 0 and (data := stream.read(min(left, TAIL_BYTES))):
            line += data.count(b"\n")
            left -= len(data)
        yield line, stream.read(TAIL_BYTES)


def _windows(data: bytes, marks: Sequence[bytes]) -> list[tuple[int, int]]:
    """Give the stretches around the marks, whole lines, in order, without overlap."""
    offsets: list[int] = []
    for mark in marks:
        at = data.find(mark)
        while at >= 0:
            offsets.append(at)
            at = data.find(mark, at + 1024)
    windows: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        start = data.rfind(b"\n", 0, max(offset - BEFORE_BYTES, 0)) + 1
        end = data.find(b"\n", offset + BEHIND_BYTES) + 1 or len(data)
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(end, windows[-1][1]))
        else:
            windows.append((start, end))
    return windows


def _decoded(data: bytes) -> str:
    """Make text of bytes, as a terminal would show it; every line stays one line."""
    text = data.decode("utf-8", "replace")
    if "\r" in text:  # of a line that is written over, the last state
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "<pre" in text and "&lt;" in text:  # a page of torch's debug server
        text = html.unescape(_TAG.sub("", text))
    return in_one_piece(text)


def _unwoven(text: str, first: int, marks: Sequence[bytes]) -> Iterator[Passage]:
    """Part lines by their prefix, where the lines with the marks have one."""
    numbers: Sequence[int] = (first,)
    if text.lstrip().startswith('{"'):  # each line is an object that some service made of it
        rows = [(n, unwrap(line)) for n, line in enumerate(text.split("\n"), first)]
        text = "\n".join(row for _, row in rows)
        numbers = [number for number, row in rows for _ in row.split("\n")]
    kind = _prefix_kind(text, marks)
    if kind is None:
        yield Passage(text, numbers)
        return
    has_clock, is_bare = kind
    woven: dict[Who, tuple[list[str], list[int]]] = {}
    lines_of_file = numbers if len(numbers) > 1 else itertools.count(first)
    for number, line in zip(lines_of_file, text.split("\n"), strict=False):
        bare = skip_clock(line) if has_clock else line
        who, rest = split_prefix(bare, numbered=is_bare)
        if who is NOBODY and bare[:1] == " ":  # what was pasted is indented as a whole
            who, rest = split_prefix(bare.lstrip())
        lines, numbers = woven.setdefault(who, ([], []))
        lines.append(rest)
        numbers.append(number)
    for who, (lines, numbers) in woven.items():
        yield Passage("\n".join(lines), numbers, who)


def _prefix_kind(text: str, marks: Sequence[bytes]) -> tuple[bool, bool] | None:
    """Say how the lines with marks begin: (with a time, with a bare number), None: with neither."""
    for mark in marks:
        places = re.finditer(re.escape(mark.decode()), text)
        for at in itertools.islice((place.start() for place in places), TRIED_LINES):
            start = text.rfind("\n", 0, at) + 1
            end = text.find("\n", at)
            line = text[start : end if end >= 0 else len(text)].lstrip(" ")
            rest = skip_clock(line)
            has_clock = rest is not line
            if split_prefix(rest, numbered=True)[1] is rest:
                if has_clock:
                    return True, False
            elif split_prefix(rest)[1] is not rest:
                return has_clock, False
            else:
                begin, end = max(0, start - AROUND_BYTES // 2), start + AROUND_BYTES
                around = text[begin:end].split("\n")[1:-1] or text.split("\n")
                if is_numbered([skip_clock(line) for line in around] if has_clock else around):
                    return has_clock, True
    return None

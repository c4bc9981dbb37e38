"""Text with stacks in it: found, cut out, freed of colours and prefixes, made into frames.

What the readers of py-spy, faulthandler, gdb, pystack and traceback text have in common. A
dump may be a file of its own, a few kilobytes in a large log, or the output of many ranks
woven together line by line, each line with its launcher's prefix.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from whyhang.analyzer.model import NOBODY, Frame, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors.files.marks import Marks
from whyhang.collectors.files.prefix import is_numbered, skip_clock, split_prefix

PYSPY = (b"(idle)", b"(active)", b"(active+gil)", b"(idle+gil)")
FIRST = (b"(most recent call first)",)
LAST = (b"(most recent call last)", b'  File "', b'File: "')
GDB = (b"#0  ", b"#1  ", b"Traceback (most recent call first)")
PYSTACK = (b"Traceback for thread ", b"The frame stack for thread ")

_MARKS = Marks(*PYSPY, *FIRST, *LAST, *GDB, *PYSTACK)

WHOLE_BYTES = 1 << 20  # up to here a file is taken whole
SEARCHED_BYTES = 64 << 20  # larger ones are searched at their beginning and end only
TAIL_BYTES = 6 << 20
BEFORE_BYTES = 2 << 10  # a heading stands before a dump
BEHIND_BYTES = 64 << 10  # and a stack behind its heading
NAME_LENGTH = 300  # pybind11 makes names of 4 KB


class Passage:
    """A stretch of text in which stacks were found, without prefixes. ``who``: the prefix's."""

    def __init__(self, who: Who, text: str, first: int, numbers: Sequence[int] = ()) -> None:
        self.who = who
        self.text = text
        self._numbers = numbers
        self._seen = (0, first)

    def line(self, offset: int) -> int:
        """Give the line of the file that ``offset`` of ``text`` lies in, counted from 1."""
        at, line = self._seen
        if offset >= at:
            line += self.text.count("\n", at, offset)
        else:
            line -= self.text.count("\n", offset, at)
        self._seen = (offset, line)
        return self._numbers[line] if self._numbers else line


def holds(document: Document, marks: Sequence[bytes]) -> bool:
    """Tell whether one of the marks is in the document (in a huge one: near an end)."""
    head = document.head
    if head.startswith(b"\x80"):  # a pickle; no text in UTF-8 begins so
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
        found = _MARKS.within_file(stream, TAIL_BYTES)
        stream.seek(document.size - TAIL_BYTES)
        return found | _MARKS.within_file(stream, TAIL_BYTES)


def _searched(document: Document) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a file that are searched, each with its offset."""
    with document.open() as stream:
        if document.size <= SEARCHED_BYTES:
            yield 0, stream.read(SEARCHED_BYTES)
            return
        yield 0, stream.read(TAIL_BYTES)
        stream.seek(document.size - TAIL_BYTES)
        yield document.size - TAIL_BYTES, stream.read(TAIL_BYTES)


def passages(document: Document, marks: Sequence[bytes]) -> Iterator[Passage]:
    """Yield the stretches of a document that hold one of the marks, one for each prefix."""
    if document.size <= len(document.head):
        yield from _unwoven(_decoded(document.head), 1, marks)
    elif document.size <= WHOLE_BYTES:
        with document.open() as stream:
            yield from _unwoven(_decoded(stream.read(WHOLE_BYTES)), 1, marks)
    else:
        for offset, data in _searched(document):
            at, line = 0, _line_at(document, offset)
            for start, end in _windows(data, marks):
                line += data.count(b"\n", at, start)
                at = start
                yield from _unwoven(_decoded(data[start:end]), line, marks)


def _line_at(document: Document, offset: int) -> int:
    line = 1
    with document.open() as stream:
        while offset > 0:
            block = stream.read(min(offset, 1 << 22))
            if not block:
                break
            line += block.count(b"\n")
            offset -= len(block)
    return line


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


_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_OVERWRITTEN = re.compile(r"[^\n\r]*\r(?!\n)")
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(?: [^<>\n]{0,200})?>")


def _decoded(data: bytes) -> str:
    """Make text of bytes, as a terminal would show it; every line stays one line."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    else:
        text = data.decode("utf-8", "replace")
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n"))
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "<pre" in text and "&lt;" in text:  # a page of torch's debug server
        import html  # noqa: PLC0415 - a live look must not wait for it

        text = html.unescape(_TAG.sub("", text))
    return text


def _unwoven(text: str, first: int, marks: Sequence[bytes]) -> Iterator[Passage]:
    """Part lines by their prefix, where the lines with the marks have one."""
    found = _prefix_kind(text, marks)
    if found is None:
        yield Passage(NOBODY, text, first)
        return
    clock, numbered = found
    woven: dict[Who, tuple[list[str], list[int]]] = {}
    for number, line in enumerate(text.split("\n"), first):
        rest = skip_clock(line) if clock else line
        who, rest = split_prefix(rest, numbered=numbered)
        lines, numbers = woven.setdefault(who, ([], []))
        lines.append(rest)
        numbers.append(number)
    for who, (lines, numbers) in woven.items():
        yield Passage(who, "\n".join(lines), 0, numbers)


def _prefix_kind(text: str, marks: Sequence[bytes]) -> tuple[bool, bool] | None:
    """Say how the lines with marks begin: (with a time, with a bare number), None: with neither."""
    for mark in marks:
        word = mark.decode()
        at, looked = text.find(word), 0
        while at >= 0 and looked < 20:
            start = text.rfind("\n", 0, at) + 1
            end = text.find("\n", at)
            line = text[start : end if end >= 0 else len(text)]
            rest = skip_clock(line)
            bare = split_prefix(rest, numbered=True)[1]
            if bare is not rest:
                numbered = split_prefix(rest)[1] is rest
                if not numbered or is_numbered(_around(text, start, clock=rest is not line)):
                    return rest is not line, numbered
            elif rest is not line:
                return True, False
            at, looked = text.find(word, at + len(word)), looked + 1
    return None


def _around(text: str, start: int, *, clock: bool) -> list[str]:
    lines = text[max(0, start - 4096) : start + 8192].split("\n")[1:-1] or text.split("\n")
    return [skip_clock(line) for line in lines] if clock else lines


@functools.lru_cache(maxsize=1 << 17)
def frame(function: str, file: str, line: int | None = None, *, native: bool = False) -> Frame:
    """Make a frame, once for each place: a thousand ranks stand in the same few hundred."""
    name = symbol(function) if native else function
    return Frame(function=name[:NAME_LENGTH], file=file, line=line, native=native)


@functools.lru_cache(maxsize=1 << 16)
def shared(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Give one and the same tuple for equal stacks."""
    return frames


def is_native_file(file: str) -> bool:
    """Tell a library, an executable or a C source from a Python file, as py-spy prints them."""
    if file.startswith("<") or file.endswith((".py", ".pyx", ".pyi", ">")):
        return False
    name = file.rpartition("/")[2]
    return (
        ".so" in name
        or name.endswith(_NATIVE_SOURCES)
        or "." not in name
        or _EXE.match(name) is not None
    )


_NATIVE_SOURCES = (
    ".c",
    ".cc",
    ".cpp",
    ".cxx",
    ".h",
    ".hpp",
    ".hh",
    ".cu",
    ".cuh",
    ".rs",
    ".S",
    ".s",
)
_EXE = re.compile(r"(?:python|pypy)[\d.]*$")


def symbol(name: str) -> str:
    """Cut a C++ symbol to its qualified name: no arguments, no return type, no clone mark."""
    depth = 0
    start = 0
    at = 0
    while at < len(name):
        char = name[at]
        if name.startswith("operator", at) and (at == 0 or not _is_word(name[at - 1])):
            at = _behind_operator(name, at + 8)
            continue
        if char in "<{[":
            depth += 1
        elif char in ">}]":
            depth = max(0, depth - 1) if char != ">" or name[at - 1 : at] != "-" else depth
        elif depth == 0 and char == "(":
            if name.startswith("(anonymous namespace)", at):
                at += len("(anonymous namespace)")
                continue
            return name[start:at].rstrip() or name
        elif depth == 0 and char == " ":
            if name.startswith(("[clone", "[abi"), at + 1):
                return name[start:at]
            start = at + 1
        at += 1
    return name[start:] or name


def _behind_operator(name: str, at: int) -> int:
    """Skip the sign behind ``operator``: the one place where < and ( do not nest."""
    if name.startswith("()", at):
        return at + 2
    while at < len(name) and name[at] in "<>=!+-*/%&|^~[],":
        at += 1
    return at


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"

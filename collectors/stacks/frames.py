"""Frames as every tool prints them, made into one record: names cut, native ones told.

Also which thread of a process is the main one, where the tool does not say.
"""

import functools
import re
from collections.abc import Hashable, Sequence
from typing import TypeVar, cast

from whyhang.analyzer.facts import Frame, Thread, replace

T = TypeVar("T", bound=Hashable)

NAME_LENGTH = 300  # pybind11 makes names of 4 KB

NATIVE_SOURCES = (
    *(".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".hh"),
    *(".cu", ".cuh", ".rs", ".S", ".s"),
)
_CYTHON = re.compile(r"__pyx_pw_(?:\d+[A-Za-z]\w*?_)+\d+(?P<name>[A-Za-z]\w*)$")
_OPERATOR = re.compile(r"\boperator(?:\(\)|[<>=!+\-*/%&|^~\[\],]*)")
_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*$")


@functools.lru_cache(maxsize=1 << 17)
def frame(function: str, file: str, line: int | None = None, *, native: bool = False) -> Frame:
    """Make a frame, once for each place: a thousand ranks stand in the same few hundred.

    Paths of Windows are written as all others.
    """
    name = symbol(function) if native else function
    path = file.replace("\\", "/")
    return Frame(function=name[:NAME_LENGTH], file=path, line=line, native=native)


def shared(value: T) -> T:
    """Return one and the same object for equal ones: the ranks of a job have much in common."""
    return cast("T", _kept(value))


@functools.lru_cache(maxsize=1 << 18)
def _kept(value: Hashable) -> Hashable:
    return value


@functools.lru_cache(maxsize=1 << 16)
def is_native_file(file: str) -> bool:
    """Tell a library, an executable or a C source from a Python file, as py-spy prints them."""
    if file.startswith("<") or file.endswith((".py", ".pyx", ".pyi", ">")):
        return False
    name = file.rpartition("/")[2]
    return (
        ".so" in name
        or name.endswith(NATIVE_SOURCES)
        or "." not in name
        or _INTERPRETER.match(name) is not None
    )


def symbol(name: str) -> str:
    """Cut a symbol of C++ to its qualified name: no arguments, no return type, no clone mark.

    Of a function of Cython the name in Python is left.
    """
    if cython := _CYTHON.match(name):
        return cython["name"]
    depth = 0
    start = 0
    at = 0
    while at < len(name):
        char = name[at]
        if operator := _OPERATOR.match(name, at):  # the one place where < and ( do not nest
            at = operator.end()
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


MAIN = "MainThread"


def _first(frames: Sequence[Frame]) -> Frame | None:
    return next((frame for frame in reversed(frames) if not frame.native), None)


def outermost(frames: Sequence[Frame]) -> str:
    """Name the outermost Python function: "<module>" on a main thread."""
    first = _first(frames)
    return first.function if first is not None else ""


def name_main(threads: Sequence[Thread]) -> tuple[Thread, ...]:
    """Name the main thread in a list where the tool does not, and no pid tells.

    It is the thread whose outermost frame is the module; else one that was not started as a
    thread. Interpreters list the newest thread first (CPython keeps thread states so), so of
    several it is the last one.
    """
    if any(thread.name == MAIN for thread in threads):
        return tuple(threads)
    numbers = range(len(threads))
    main = [n for n in numbers if outermost(threads[n].frames) == "<module>"]
    main = main or [n for n in numbers if threads[n].frames and not _is_started(threads[n])]
    if not main:
        return tuple(threads)
    return (*threads[: main[-1]], replace(threads[main[-1]], name=MAIN), *threads[main[-1] + 1 :])


def _is_started(thread: Thread) -> bool:
    """Tell a thread that the threading module started: it cannot be the main thread."""
    first = _first(thread.frames)
    is_file = first is not None and first.file.endswith("threading.py")
    return is_file and outermost(thread.frames).endswith("_bootstrap")

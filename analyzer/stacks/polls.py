"""Waits that only the source around a frame shows: for a file, or for a request of MPI."""

import re

from whyhang.analyzer.facts import Frame
from whyhang.analyzer.stacks.kinds import LineText
from whyhang.analyzer.stacks.source_blocks import MAX_BLOCK, block, heads

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

_ASKS_MPI = re.compile(r"\.(?P<call>Test(?:all|any|some)?|test(?:all|any|some))\(")
"""Methods of mpi4py that tell whether requests are done; a plain ``test`` may be anybody's.

Who probes for messages that may come serves others.
"""

_FOR_RANKS = re.compile(r"\bfor\b.*\bin\b.*\b(?:world(?:_?size)?|n_?ranks|num_ranks|peers|ranks)\b")


def waits_for_removal(frame: Frame, text: LineText) -> bool:
    """Return whether a frame sleeps until a file is gone: a lock that a program has made itself."""
    return any(_UNTIL_REMOVED.match(text(head) or "") for head in heads(frame, text))


def awaited_file(frame: Frame, text: LineText) -> Frame | None:
    """Return the head of the loop in which a frame looks again and again whether a file is there.

    It sleeps in between: a ``while`` that asks for it in its head, or in the lines below.
    """
    loop = _loop_at(frame, text)
    if loop is None:
        return None
    lines = _lines_of(loop, text)
    asks, sleeps = (any(each.search(line) for line in lines) for each in (_ASKS_FILE, _SLEEPS))
    return loop if asks and sleeps else None


def asked_of_mpi(frame: Frame, text: LineText) -> str:
    """Return the call by which a loop asks MPI for requests again and again, and sleeps, if any."""
    loop = _loop_at(frame, text)
    lines = [] if loop is None else _lines_of(loop, text)
    asks = next((found["call"] for line in lines if (found := _ASKS_MPI.search(line))), "")
    return asks if any(map(_SLEEPS.search, lines)) else ""


def _loop_at(frame: Frame, text: LineText) -> Frame | None:
    """Return the head of the innermost ``while`` that a frame is in, or at."""
    if _WHILE.match(text(frame) or ""):
        return frame
    return next((head for head in heads(frame, text) if _WHILE.match(text(head) or "")), None)


def one_of_each_rank(loop: Frame, text: LineText) -> bool:
    """Return whether a loop that looks for files looks for one of each rank."""
    return any(map(_FOR_RANKS.search, _lines_of(loop, text)))


def _lines_of(loop: Frame, text: LineText) -> list[str]:
    """Return the lines of a loop, its head first, as far as they are looked at."""
    return [text(loop) or "", *block(loop, text, (loop.line or 0) + MAX_BLOCK)]

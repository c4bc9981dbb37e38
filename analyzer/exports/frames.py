"""The stacks of a report, outermost frame first, with how many threads stand in each."""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import Record, ranks_in_words
from whyhang.analyzer.report import Report, StackGroup

_PLACE = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?::(?P<line>\d{1,9}))?\)")


class Place(Record):
    """One frame, taken apart where it is written as reports write them."""

    function: str
    file: str | None = None
    line: int | None = None


class Stack(Record):
    """Threads that stand at one place. ``label`` says whose they are and what they wait for."""

    frames: tuple[str, ...]
    label: str
    count: int
    thread: str


def stacks(report: Report) -> Iterator[Stack]:
    """Yield the stacks in the order of the report."""
    for group in report.stack_groups:
        yield Stack(
            frames=tuple(reversed(group.frames)),
            label=_label(group),
            count=max(len(group.ranks), len(group.names), 1),
            thread=group.thread,
        )


def place(frame: str) -> Place:
    """Take a frame apart: ``step (train.py:40)``; what is written otherwise is a name."""
    match = _PLACE.fullmatch(frame)
    if match is None:
        return Place(function=frame)
    line = int(match["line"]) if match["line"] else None
    return Place(function=match["function"], file=match["file"] or None, line=line)


def _label(group: StackGroup) -> str:
    ranks = ranks_in_words(group.ranks) if group.ranks else ""
    names = ", ".join((*group.names[:3], "…")[: len(group.names)])
    whose = ", ".join(part for part in (ranks, names) if part)
    return f"[{whose}: {group.waits_for}]" if group.waits_for else f"[{whose}]"

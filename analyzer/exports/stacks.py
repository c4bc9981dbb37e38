"""The stacks of a report for profilers: folded lines, and speedscope's bars.

Formats: https://github.com/brendangregg/FlameGraph, "Fold stacks" (for flamegraph.pl and inferno,
``outer;inner;… count``), and the JSON Schema at
https://www.speedscope.app/file-format-schema.json (a bar as wide as the ranks that stand there).
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from whyhang.analyzer.facts import Record, grouped, ranks_in_words
from whyhang.analyzer.report import Report, StackGroup

_PLACE = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?::(?P<line>\d{1,9}))?\)")


class ShownFrame(Record):
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


def shown_frame(frame: str) -> ShownFrame:
    """Take a frame apart: ``step (train.py:40)``; what is written otherwise is a name."""
    match = _PLACE.fullmatch(frame)
    if match is None:
        return ShownFrame(function=frame)
    line = int(match["line"]) if match["line"] else None
    return ShownFrame(function=match["function"], file=match["file"] or None, line=line)


def _label(group: StackGroup) -> str:
    ranks = ranks_in_words(group.ranks) if group.ranks else ""
    names = ", ".join((*group.names[:3], "…")[: len(group.names)])
    whose = ", ".join(part for part in (ranks, names) if part)
    return f"[{whose}: {group.waits_for}]" if group.waits_for else f"[{whose}]"


def folded(report: Report) -> bytes:
    """Write a line for each stack: its thread, its frames, whose it is, how many they are."""
    lines = [
        ";".join(map(_field, (stack.thread, *stack.frames, stack.label))) + f" {stack.count}\n"
        for stack in stacks(report)
    ]
    return "".join(lines).encode()


def _field(text: str) -> str:
    """Keep a frame one field: a semicolon ends a frame, and a line break a stack."""
    return " ".join(text.replace(";", ":").split())


SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(report: Report) -> bytes:
    """Write one profile for each kind of thread; the innermost frame says whose it is."""
    shown = list(stacks(report))
    frames = dict.fromkeys(frame for stack in shown for frame in (*stack.frames, stack.label))
    numbers = {frame: number for number, frame in enumerate(frames)}
    by_thread = grouped(shown, lambda stack: stack.thread)
    document = {
        "$schema": SCHEMA,
        "shared": {"frames": [_frame(frame) for frame in numbers]},
        "profiles": [_profile(thread, own, numbers) for thread, own in by_thread.items()],
        "name": report.headline,
        "activeProfileIndex": 0,
        "exporter": f"whyhang@{report.tool_version}",
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _frame(frame: str) -> dict[str, Any]:
    at = shown_frame(frame)
    shown: dict[str, Any] = {"name": frame if at.file is None else at.function}
    if at.file is not None:
        shown["file"] = at.file
    if at.line is not None:
        shown["line"] = at.line
    return shown


def _profile(thread: str, own: list[Stack], numbers: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": f"{thread} thread" if thread == "main" else thread,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(stack.count for stack in own),
        "samples": [[numbers[frame] for frame in (*stack.frames, stack.label)] for stack in own],
        "weights": [stack.count for stack in own],
    }

"""The stacks of a report for profilers: folded lines, and speedscope's bars.

Formats: https://github.com/brendangregg/FlameGraph, "Fold stacks" (for flamegraph.pl and inferno,
``outer;inner;… count``), and the JSON Schema at
https://www.speedscope.app/file-format-schema.json (a bar as wide as the ranks that stand there).
"""

import re
from typing import Any

import msgspec

from whyhang.analyzer.facts import Frame, grouped, listed, ranks_in_words
from whyhang.analyzer.report import Report, StackGroup

_PLACE = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?::(?P<line>\d{1,9}))?\)")


def shown_frame(frame: str) -> Frame:
    """Take a frame apart: ``step (train.py:40)``; what is written otherwise is a name."""
    match = _PLACE.fullmatch(frame)
    if match is None:
        return Frame(function=frame, file="")
    line = int(match["line"]) if match["line"] else None
    return Frame(function=match["function"], file=match["file"], line=line)


def count_of(group: StackGroup) -> int:
    """Return how many threads stand there, as far as they are named."""
    return max(len(group.ranks), len(group.names), 1)


def _frames(group: StackGroup) -> tuple[str, ...]:
    """Return the frames, outermost first; the last says whose they are and what they wait for."""
    ranks = ranks_in_words(group.ranks) if group.ranks else ""
    whose = ", ".join(part for part in (ranks, listed(group.names)) if part)
    label = f"[{whose}: {group.waits_for}]" if group.waits_for else f"[{whose}]"
    return (*reversed(group.frames), label)


def folded(report: Report) -> bytes:
    """Write a line for each stack: its thread, its frames, whose it is, how many they are."""
    lines = []
    for group in report.stack_groups:
        # A semicolon ends a frame, and a line break a stack.
        fields = (
            " ".join(text.replace(";", ":").split()) for text in (group.thread, *_frames(group))
        )
        lines.append(f"{';'.join(fields)} {count_of(group)}\n")
    return "".join(lines).encode()


SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(report: Report) -> bytes:
    """Write one profile for each kind of thread; the innermost frame says whose it is."""
    frames = dict.fromkeys(frame for group in report.stack_groups for frame in _frames(group))
    numbers = {frame: number for number, frame in enumerate(frames)}
    by_thread = grouped(report.stack_groups, lambda group: group.thread)
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
    shown: dict[str, Any] = {"name": at.function if at.file else frame}
    if at.file:
        shown["file"] = at.file
    if at.line is not None:
        shown["line"] = at.line
    return shown


def _profile(thread: str, own: list[StackGroup], numbers: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": f"{thread} thread" if thread == "main" else thread,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(map(count_of, own)),
        "samples": [[numbers[frame] for frame in _frames(group)] for group in own],
        "weights": list(map(count_of, own)),
    }

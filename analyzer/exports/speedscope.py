"""Merged stacks for https://www.speedscope.app: a bar as wide as the ranks that stand there.

Format: the JSON Schema at https://www.speedscope.app/file-format-schema.json.
"""

from typing import Any

import msgspec

from whyhang.analyzer.exports.frames import Stack, place, stacks
from whyhang.analyzer.report import Report

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def render(report: Report) -> bytes:
    """Write one profile for each kind of thread; the innermost frame says whose it is."""
    numbers: dict[str, int] = {}
    by_thread: dict[str, list[Stack]] = {}
    for stack in stacks(report):
        by_thread.setdefault(stack.thread, []).append(stack)
        for frame in (*stack.frames, stack.label):
            numbers.setdefault(frame, len(numbers))
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
    at = place(frame)
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

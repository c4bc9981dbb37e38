"""Merged stacks as folded lines, for flamegraph.pl and inferno: ``outer;inner;… count``.

Format: https://github.com/brendangregg/FlameGraph, "Fold stacks".
"""

from whyhang.analyzer.exports.frames import stacks
from whyhang.analyzer.report import Report


def render(report: Report) -> bytes:
    """Write a line for each stack: its thread, its frames, whose it is, how many they are."""
    lines = [
        ";".join(map(_frame, (stack.thread, *stack.frames, stack.label))) + f" {stack.count}\n"
        for stack in stacks(report)
    ]
    return "".join(lines).encode()


def _frame(text: str) -> str:
    """Keep a frame one field: a semicolon ends a frame, and a line break a stack."""
    return " ".join(text.replace(";", ":").split())

"""In which step of its loops a rank is: the small integers that loops count with.

Ranks that stand at one line look alike, though one may be a step ahead. Of all variables of the
user's own frames only whole numbers under the names that people give to steps are kept.
"""

from __future__ import annotations

import re

import msgspec

from whyhang.analyzer.model import STEP_CLAIM, Claim, Frame, Record, Source, Who
from whyhang.analyzer.waits.usercode import is_library, short

MOST = 64
"""Ranks asked on one host."""

_STEPS = "step|epoch|batch|iter|iteration"
_NAMES = re.compile(
    rf"(?:i|j|k|it|iters|{_STEPS}"
    rf"|(?!(?:best|last|max|min|num|total|start|first|resume|warmup|per)_)\w+_(?:{_STEPS})"
    rf"|(?:{_STEPS})_(?:i|id|idx|index|no|nb|num|number|count))"
)
"""Names of what a loop counts; not of sizes, limits and places in a data set, which may differ."""

_DIGITS = 12


class Counter(Record):
    """One variable of one rank: its value, and the function that it is in."""

    pid: int
    name: str
    value: int
    function: str
    file: str


class _Local(msgspec.Struct):
    name: str = ""
    repr: str | None = None


class _Frame(msgspec.Struct):
    name: str = ""
    filename: str = ""
    line: int = 0
    locals: list[_Local] | None = None


class _Trace(msgspec.Struct):
    frames: list[_Frame]
    os_thread_id: int | None = None


def read_counters(pid: int, data: bytes) -> list[Counter]:
    """Read the counters of a main thread out of ``py-spy dump --json --locals``; never fails."""
    try:
        traces = msgspec.json.decode(data, type=list[_Trace])
    except (msgspec.DecodeError, RecursionError):
        return []
    main = next((trace for trace in traces if trace.os_thread_id == pid), None)
    return [
        Counter(
            pid=pid,
            name=local.name,
            value=int(local.repr or ""),
            function=frame.name,
            file=short(frame.filename),
        )
        for frame in (main.frames if main is not None else ())
        if not is_library(Frame(function=frame.name, file=frame.filename, line=frame.line))
        for local in frame.locals or ()
        if _counts(local)
    ]


def _counts(local: _Local) -> bool:
    text = local.repr or ""
    whole = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return whole and _NAMES.fullmatch(local.name) is not None


def claim_of(counter: Counter, who: Who) -> Claim:
    """Put a counter into the words of a claim: its value, then what counts."""
    what = f"{counter.name} in {counter.function} ({counter.file})"
    return Claim(
        about=STEP_CLAIM,
        value=f"{counter.value} {what}",
        who=who,
        source=Source(file="claims.json"),
    )

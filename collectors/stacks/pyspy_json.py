"""py-spy's JSON (``py-spy dump --json``): a list of threads, each with its pid and frames.

Read too: several such lists one after the other in a file (a loop that appends), lists of
lists, and objects that hold them under a rank's or host's name. Field names are those of
``src/stack_trace.rs``, py-spy 0.3 to 0.4.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from whyhang.analyzer.facts import NOBODY, Fact, Gap, Thread, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors.files.naming import join
from whyhang.collectors.stacks import heading as stack_heading
from whyhang.collectors.stacks import launched
from whyhang.collectors.stacks import owner as stack_owner
from whyhang.collectors.stacks import text as stack_text
from whyhang.collectors.stacks.owner import Found
from whyhang.collectors.stacks.text import Passage

LARGEST_BYTES = 256 << 20
ATTEMPTS = 10_000  # pieces of JSON looked for in one file


class _Local(msgspec.Struct):
    name: str = ""
    arg: bool = False
    repr: str | None = None


class _Frame(msgspec.Struct):
    name: str = ""
    filename: str = ""
    module: str | None = None
    line: int = 0
    locals: list[_Local] | None = None


class _ProcessInfo(msgspec.Struct):
    pid: int | None = None
    command_line: str = ""
    parent: _ProcessInfo | None = None


class _Trace(msgspec.Struct):
    pid: int
    frames: list[_Frame]
    thread_id: int | None = None
    thread_name: str | None = None
    os_thread_id: int | None = None
    active: bool | None = None
    owns_gil: bool | None = None
    process_info: _ProcessInfo | None = None


_TRACES = msgspec.json.Decoder(list[_Trace])


def read(document: Document) -> Iterator[Fact]:
    """Yield a dump for each process in the file."""
    if document.size > LARGEST_BYTES:
        yield _gap(document, "it is larger than any list of stacks")
        return
    with document.open() as stream:
        data = stream.read(LARGEST_BYTES)
    passage = Passage(NOBODY, "", 1)
    whole = True
    for name, traces in _lists(data):
        if traces is None:
            whole = False
            continue
        said = stack_heading.read(name) if name else None
        section = said.who if said is not None else NOBODY
        found = list(_processes(traces))
        yield from stack_owner.dumps(document, passage, "py-spy", section, found)
    if not whole:
        yield _gap(document, "it is not whole JSON, or not all of it is py-spy's")


def _gap(document: Document, why: str) -> Gap:
    return Gap(
        what=f"reading the stacks in {document.path}",
        why=why,
        cost="stacks in it may be missing",
        remedy="Dump them again as text: py-spy dump --pid PID",
        source=document.source(),
    )


def _lists(data: bytes) -> Iterator[tuple[str, list[_Trace] | None]]:
    """Yield each list of threads with the name it stands under; None for what is no such list."""
    try:
        yield "", _TRACES.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        for value in _values(data.decode("utf-8", "replace")):
            if value is None:
                yield "", None
            else:
                yield from _inside("", value, 0)


def _values(text: str) -> Iterator[object]:
    """Yield the JSON values that stand one after the other in a text, whatever is between."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(ATTEMPTS):
        starts = [start for mark in "[{" if (start := text.find(mark, at)) >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield None
            # What is cut off or garbled ends where the next list begins on a line of its own.
            following = text.find("\n[", at + 1)
            if following < 0:
                return
            at = following + 1
        else:
            yield value


def _inside(name: str, value: object, depth: int) -> Iterator[tuple[str, list[_Trace] | None]]:
    if depth > 4:
        return
    if isinstance(value, list) and value and _is_trace(value[0]):
        traces = [trace for item in value if (trace := _trace(item)) is not None]
        yield name, traces or None
    elif isinstance(value, list):
        for item in value:
            yield from _inside(name, item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _inside(str(key), item, depth + 1)


def _is_trace(value: object) -> bool:
    return isinstance(value, dict) and "frames" in value and "pid" in value


def _trace(value: object) -> _Trace | None:
    try:
        return msgspec.convert(value, _Trace, strict=False)
    except (msgspec.ValidationError, ValueError, RecursionError):
        return None


def _processes(traces: Sequence[_Trace]) -> Iterator[Found]:
    """Group threads by process. py-spy lists the main thread last; its text shows it first."""
    by_pid: dict[int, list[_Trace]] = {}
    for trace in traces:
        by_pid.setdefault(trace.pid, []).insert(0, trace)
    for pid, own in by_pid.items():
        info = next((trace.process_info for trace in own if trace.process_info), None)
        command = info.command_line if info is not None else None
        told = [who for trace in own for who in _told(trace)]
        who = join(Who(pid=pid), launched.told_by_command(command or ""), launched.agreed(told))
        yield Found(
            who=who,
            threads=tuple(_thread(trace) for trace in own),
            line=1,
            parent=info.parent.pid if info is not None and info.parent is not None else None,
            command=command or None,
        )


def _thread(trace: _Trace) -> Thread:
    frames = tuple(
        stack_text.frame(
            frame.name,
            frame.filename,
            frame.line or None,
            native=frame.module is not None or stack_text.is_native_file(frame.filename),
        )
        for frame in trace.frames
    )
    return Thread(
        frames=stack_text.shared(frames),
        name=trace.thread_name,
        tid=trace.os_thread_id if trace.os_thread_id is not None else trace.thread_id,
        active=trace.active,
        holds_gil=trace.owns_gil,
    )


def _told(trace: _Trace) -> Iterator[Who]:
    for frame in trace.frames:
        for local in frame.locals or ():
            if local.repr is not None and local.repr.isdecimal() and len(local.repr) <= 6:
                place = stack_text.frame(frame.name, frame.filename, frame.line or None)
                value = int(local.repr)
                yield from launched.told_by_local(local.name, value, place, argument=local.arg)

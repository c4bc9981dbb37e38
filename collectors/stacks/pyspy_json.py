"""py-spy's JSON (``py-spy dump --json``): a list of threads, each with its pid and frames.

Read too: several such lists one after the other in a file (a loop that appends), lists of
lists, and objects that hold them under a rank's or host's name. Field names are those of
``src/stack_trace.rs``, py-spy 0.3 to 0.4. Of a dump with ``--locals`` whyhang itself keeps the
calls that name another rank (``peers_only``); the threads in it have no number.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from whyhang.analyzer.facts import NOBODY, Fact, Frame, Gap, Thread, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.files.naming import join
from whyhang.collectors.stacks import heading, launched, peers
from whyhang.collectors.stacks.frames import frame, is_native_file, shared
from whyhang.collectors.stacks.reader import dumps
from whyhang.collectors.stacks.sections import HeadedStacks, ProcessStacks

LARGEST_BYTES = 256 << 20
ATTEMPTS = 10_000  # pieces of JSON looked for in one file
MAX_DEPTH = 4  # of lists and objects around the list of threads

_START = limits.compile(r"[\[{]")
_NEXT_LIST = limits.compile(r"\n\[")


class Local(msgspec.Struct, omit_defaults=True):
    """A variable; ``arg``: an argument."""

    name: str = ""
    arg: bool = False
    repr: str | None = None


class PrintedFrame(msgspec.Struct, omit_defaults=True):
    """A frame as py-spy prints it."""

    name: str = ""
    filename: str = ""
    module: str | None = None
    line: int = 0
    locals: list[Local] | None = None


class _ProcessInfo(msgspec.Struct):
    pid: int | None = None
    command_line: str = ""
    parent: _ProcessInfo | None = None


class Trace(msgspec.Struct, omit_defaults=True):
    """A thread as py-spy prints it, the innermost frame first."""

    pid: int
    frames: list[PrintedFrame]
    thread_id: int | None = None
    thread_name: str | None = None
    os_thread_id: int | None = None
    active: bool | None = None
    owns_gil: bool | None = None
    process_info: _ProcessInfo | None = None


_TRACES = msgspec.json.Decoder(list[Trace])


def read_traces(data: bytes) -> list[Trace]:
    """Read what ``py-spy dump --json`` printed of one process; nothing where it is damaged."""
    try:
        return _TRACES.decode(data)
    except (ValueError, RecursionError):
        return []


class _PyspyJson:
    name = "py-spy JSON"

    def sniff(self, document: Document) -> bool:
        head = document.head
        return b'"frames"' in head and (b'thread_id"' in head or b'"locals"' in head)

    def owns(self, document: Document) -> bool:
        return document.head.lstrip()[:1] == b"["

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a dump for each process in the file, and the calls that name another rank."""
        if document.size > LARGEST_BYTES:
            yield _gap(document, "it is larger than any list of stacks")
            return
        data = document.content(LARGEST_BYTES)
        is_whole = True
        for name, traces in _lists(data):
            is_whole = is_whole and traces is not None
            above = heading.read(name) if name else None
            section = HeadedStacks(
                who=above.who if above is not None else NOBODY,
                processes=list(_processes(traces or ())),
            )
            yield from dumps(document, "py-spy", section)
        if not is_whole:
            yield _gap(document, "it is not whole JSON, or not all of it is py-spy's")


READER = _PyspyJson()


def peers_only(data: bytes) -> bytes:
    """Cut what ``py-spy dump --json --locals`` prints down to calls that name another rank.

    Of all variables only these ranks and tags are kept. What cannot be read gives an empty list.
    """
    calls = []
    for trace in read_traces(data):
        for place, called in enumerate(trace.frames):
            if argument := peers.argument_of(called.name, called.filename):
                frames = [_only_locals(outer, {argument, "tag"}) for outer in trace.frames[place:]]
                calls.append(Trace(pid=trace.pid, frames=frames))
                break
    return msgspec.json.encode(calls)


def _only_locals(printed: PrintedFrame, names: AbstractSet[str]) -> PrintedFrame:
    """Keep these variables of a frame of torch's, none of another one."""
    kept = [
        local
        for local in printed.locals or ()
        if local.name in names or (local.name, local.repr) == ("group", "None")
    ]
    is_torchs = peers.is_of_calls(printed.filename)
    return PrintedFrame(
        name=printed.name,
        filename=printed.filename,
        line=printed.line,
        locals=kept if is_torchs else None,
    )


def _gap(document: Document, why: str) -> Gap:
    return document.gap(
        why,
        what=f"reading the stacks in {document.path}",
        cost="stacks in it may be missing",
        remedy="Dump them again as text: py-spy dump --pid PID",
    )


def _lists(data: bytes) -> Iterator[tuple[str, list[Trace] | None]]:
    """Yield each list of threads with the name it stands under; None for what is no such list."""
    try:
        yield "", _TRACES.decode(data)
    except (ValueError, RecursionError):
        for value in _values(data.decode("utf-8", "replace")):
            if value is None:
                yield "", None
            else:
                yield from _inside("", value, 0)


def _values(text: str) -> Iterator[object]:
    """Yield the JSON values that stand one after the other in a text, None for damaged ones."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(ATTEMPTS):
        start = _START.search(text, at)
        if start is None:
            return
        try:
            value, at = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            yield None
            # What is cut off or garbled ends where the next list begins on a line of its own.
            following = _NEXT_LIST.search(text, start.end())
            if following is None:
                return
            at = following.end() - 1
        else:
            yield value
    yield None


def _inside(name: str, value: object, depth: int) -> Iterator[tuple[str, list[Trace] | None]]:
    if depth > MAX_DEPTH:
        return
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, dict) and {"frames", "pid"} <= first.keys():
        traces = []
        for item in value if isinstance(value, list) else ():
            with contextlib.suppress(ValueError, RecursionError):
                traces.append(msgspec.convert(item, Trace, strict=False))
        yield name, traces or None
    elif isinstance(value, list):
        for item in value:
            yield from _inside(name, item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _inside(str(key), item, depth + 1)


def _processes(traces: Sequence[Trace]) -> Iterator[ProcessStacks]:
    """Group threads by process. py-spy lists the main thread last; its text shows it first."""
    by_pid: dict[int, list[Trace]] = {}
    for trace in traces:
        by_pid.setdefault(trace.pid, []).append(trace)
    for pid, own in by_pid.items():
        own.reverse()
        info = next((trace.process_info for trace in own if trace.process_info), None)
        command = info.command_line if info is not None else ""
        stacks = [(trace, shared(tuple(map(_frame, trace.frames)))) for trace in own]
        ranks = [who for trace, frames in stacks for who in _ranks(trace, frames)]
        has_threads = any(_tid(trace) is not None for trace in own)
        yield ProcessStacks(
            who=join(Who(pid=pid), launched.who_by_command(command), launched.agreed(ranks)),
            threads=tuple(_thread(*stack) for stack in stacks) if has_threads else (),
            line=1,
            parent=info.parent.pid if info is not None and info.parent is not None else None,
            command=command or None,
            calls=tuple(call for trace, frames in stacks for call in _calls(trace, frames)),
        )


def _tid(trace: Trace) -> int | None:
    return trace.os_thread_id if trace.os_thread_id is not None else trace.thread_id


def _thread(trace: Trace, frames: tuple[Frame, ...]) -> Thread:
    return Thread(
        frames=frames,
        name=shared(trace.thread_name),
        tid=_tid(trace),
        active=trace.active,
        holds_gil=trace.owns_gil,
    )


def _frame(printed: PrintedFrame) -> Frame:
    native = printed.module is not None or is_native_file(printed.filename)
    return frame(printed.name, printed.filename, printed.line or None, native=native)


def _ranks(trace: Trace, frames: Sequence[Frame]) -> Iterator[Who]:
    for printed, place in zip(trace.frames, frames, strict=True):
        for local in printed.locals or ():
            if local.repr is not None:
                who = launched.who_by_local(local.name, local.repr, place, is_argument=local.arg)
                if who is not NOBODY:
                    yield who


def _calls(trace: Trace, frames: Sequence[Frame]) -> tuple[peers.PeerCall, ...]:
    variables = {
        place: {local.name: local.repr or "" for local in printed.locals}
        for place, printed in enumerate(trace.frames)
        if printed.locals
    }
    return peers.calls_on(frames, variables)

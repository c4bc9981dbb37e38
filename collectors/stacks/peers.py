"""With whom a rank speaks, out of a py-spy dump taken with ``--locals``.

gloo's recorder holds no sends and receives, and a stack alone names no peer. The arguments of
torch's own ``send`` and ``recv`` do: ``dst`` and ``src`` are global ranks. So are those of a
broadcast, on which all ranks of a group must agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from whyhang.analyzer.model import (
    IN_DEFAULT_GROUP,
    ROOT_CLAIM,
    Call,
    CallState,
    Claim,
    Fact,
    Frame,
    Group,
    Source,
    Track,
    Who,
    replace,
)
from whyhang.analyzer.reading import Document

KIND = "stack"
_UNKNOWN_GROUP = Group(name="")
_FILE = "torch/distributed/distributed_c10d.py"
_PEERS = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}
_ROOTS = {"broadcast": "src", "scatter": "src", "reduce": "dst", "gather": "dst"}
ROOTED = frozenset(_ROOTS)
"""Collectives with one rank that gives or takes."""

_OPS = {"send": "send", "isend": "send", "recv": "recv", "irecv": "recv"}
_TEXT = re.compile(
    r"^    (?P<op>i?send|i?recv) \(\S*torch/distributed/distributed_c10d\.py:\d+\)\n"
    r"        Arguments:\n(?P<arguments>(?:            .*\n)+)",
    re.MULTILINE,
)
_ARGUMENT = re.compile(r"^ +(\w+): (-?\d+)$", re.MULTILINE)
_FRAME = re.compile(
    r"^    (?P<name>\S[^(\n]*?) \((?P<file>[^()\n]+?):(?P<line>\d+)\)$", re.MULTILINE
)
_PROCESS = re.compile(r"^Process (\d+):", re.MULTILINE)


class _Local(msgspec.Struct):
    name: str = ""
    repr: str | None = None


class _Frame(msgspec.Struct):
    name: str = ""
    filename: str = ""
    short_filename: str | None = None
    line: int = 0
    locals: list[_Local] | None = None


class _Trace(msgspec.Struct):
    frames: list[_Frame]
    pid: int | None = None


_TRACES = msgspec.json.Decoder(list[_Trace])


class StackPeers:
    """Reads the peers of sends and receives; the stacks themselves are another reader's."""

    name = "peers of sends and receives in py-spy stacks"
    joins_owner = True  # see collectors.folder.Owner

    def sniff(self, document: Document) -> bool:
        """Look for the function in a dump that has the arguments, too."""
        head = document.head
        if head[:1] == b"\x80":  # a pickle: recorder dumps name the file, too
            return False
        if _FILE.encode() not in head or not any(op.encode() in head for op in (*_PEERS, *_ROOTS)):
            return False
        return b'"locals"' in head or b"        Arguments:\n" in head

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a track for a process in a send or receive, a claim for one in a broadcast."""
        with document.open() as stream:
            data = stream.read(16 << 20)
        if data.lstrip()[:1] == b"[":
            yield from _from_json(document, data)
        else:
            yield from _from_text(document, data.decode("utf-8", "replace"))


def peers_only(data: bytes) -> bytes:
    """Cut what ``py-spy dump --json --locals`` prints down to calls that name another rank.

    Of all variables only these ranks and tags are kept. What cannot be read gives an empty list.
    """
    try:
        traces = _TRACES.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return b"[]"
    kept = []
    for trace in traces:
        place = _in_call(trace)
        if place is not None:
            frames = [_bare(frame) for frame in trace.frames[place:]]
            name = trace.frames[place].name
            peer = _PEERS.get(name) or _ROOTS[name]
            known = trace.frames[place].locals or ()
            frames[0].locals = [v for v in known if v.name in {peer, "tag"} or _is_default(v)]
            kept.append(_Trace(frames=frames, pid=trace.pid))
    return msgspec.json.encode(kept)


def _is_default(variable: _Local) -> bool:
    return variable.name == "group" and variable.repr == "None"


def _bare(frame: _Frame) -> _Frame:
    return _Frame(
        name=frame.name,
        filename=frame.filename,
        short_filename=frame.short_filename,
        line=frame.line,
    )


def _in_call(trace: _Trace) -> int | None:
    """Find the frame of torch's send, receive or broadcast."""
    for place, frame in enumerate(trace.frames):
        if (frame.name in _PEERS or frame.name in _ROOTS) and frame.filename.endswith(_FILE):
            return place
    return None


def _from_json(document: Document, data: bytes) -> Iterator[Track | Claim]:
    try:
        traces = _TRACES.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return  # the reader of the stacks says what is wrong
    for trace in traces:
        place = _in_call(trace)
        if place is None:
            continue
        called = trace.frames[place]
        arguments = {local.name: local.repr or "" for local in called.locals or ()}
        frames = tuple(
            Frame(function=f.name, file=f.filename or f.short_filename or "", line=f.line)
            for f in trace.frames[place:]
        )
        who = document.who
        if who.pid is None and trace.pid is not None:
            who = replace(who, pid=trace.pid)
        if called.name in _PEERS:
            yield from _track(document.source(), who, called.name, arguments, frames)
        elif arguments.get(_ROOTS[called.name], "").isdecimal():
            said = f"{called.name} {arguments[_ROOTS[called.name]]}"
            said += IN_DEFAULT_GROUP if arguments.get("group") == "None" else ""
            yield Claim(about=ROOT_CLAIM, value=said, who=who, source=document.source())


def _from_text(document: Document, text: str) -> Iterator[Track]:
    processes = _PROCESS.findall(text)
    who = document.who
    if len(processes) > 1 or (processes and who.pid not in {None, int(processes[0])}):
        return  # whose thread it is would be a guess
    if processes and who.pid is None:
        who = replace(who, pid=int(processes[0]))
    found = _TEXT.search(text)
    if found is None:
        return
    rest = text[found.start("op") - 4 :].split("\nThread ", 1)[0]
    frames = tuple(
        Frame(function=f["name"], file=f["file"], line=int(f["line"]))
        for f in _FRAME.finditer(rest)
    )
    line = text.count("\n", 0, found.start("op")) + 1
    arguments = dict(_ARGUMENT.findall(found["arguments"]))
    yield from _track(document.source(line), who, found["op"], arguments, frames)


def _track(
    source: Source, who: Who, function: str, arguments: Mapping[str, str], frames: tuple[Frame, ...]
) -> Iterator[Track]:
    peer = arguments.get(_PEERS[function], "")
    if not peer.isdecimal():
        return
    tag = arguments.get("tag", "")
    call = Call(
        op=_OPS[function],
        state=CallState.INSIDE,
        p2p=True,
        peer=int(peer),
        tag=int(tag) if tag.isdecimal() else None,
        frames=frames,
    )
    yield Track(who=who, group=_UNKNOWN_GROUP, kind=KIND, source=source, calls=(call,))

"""Calls that name another rank, as arguments in a dump or in a traceback's source line show them.

gloo's recorder holds no sends and receives, and a stack alone names no peer. The arguments of
torch's own ``send`` and ``recv`` do: ``dst`` and ``src`` are global ranks. So are those of a
broadcast, on which all ranks of a group must agree.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from whyhang.analyzer.facts import (
    Call,
    CallState,
    Frame,
    Group,
    Record,
    RootArgument,
    Source,
    Track,
    Who,
    whole,
)
from whyhang.analyzer.reading import Document

KIND = "stack"
_UNKNOWN_GROUP = Group(name="")
_FILE = "torch/distributed/distributed_c10d.py"
_PEERS = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}
_ROOTS = {"broadcast": "src", "scatter": "src", "reduce": "dst", "gather": "dst"}
# The place of that argument in calls that users write.
_PLACES = {
    **dict.fromkeys((*_PEERS, "broadcast", "reduce", "broadcast_object_list"), 1),
    **dict.fromkeys(("gather", "scatter", "gather_object", "scatter_object_list"), 2),
}
_TEXT_OF_CALL = re.compile(r"\b(" + "|".join(_PLACES) + r")\(")
LONGEST_RANK = 7  # digits

# Blocks that the main process runs first (transformers, accelerate, ultralytics and their like):
# the others wait for it in a barrier at their head. Mostly it is the first rank of a host.
_ZERO_FIRST = re.compile(
    r"(?:torch_distributed_)?(?:(?:local_)?main_process|(?:rank_)?zero)_first$"
)
_FIRST = "first"
GPUS_OF_A_HOST = 8
"""And so ranks, mostly."""


class PeerCall(Record):
    """A call of torch's that stands on a stack. ``line`` is that of its frame in the source."""

    frames: tuple[Frame, ...]  # from that of the call on, innermost first
    arguments: Mapping[str, str]
    line: int | None = None


def is_of_calls(file: str) -> bool:
    """Return whether a file is that of torch's calls."""
    return file.endswith(_FILE)


def argument_of(function: str, file: str) -> str | None:
    """Name the argument that holds the other rank, where a frame is of such a call."""
    if not is_of_calls(file):
        return None
    return _PEERS.get(function) or _ROOTS.get(function)


def calls_on(
    frames: Sequence[Frame], variables: Mapping[int, Mapping[str, str]]
) -> tuple[PeerCall, ...]:
    """Return the innermost such call on a stack; ``variables`` are those of the frame at a place.

    It is empty where there is none, or nothing is known of its variables. A collective of objects
    names the other rank in its own arguments, and gives another number to the call that it makes.
    """
    for place in range(len(frames)) if variables else ():
        name = argument_of(frames[place].function, frames[place].file)
        if name is None:
            continue
        arguments = {**variables.get(place, {})}
        for outer in range(place + 1, len(frames)):
            value = variables.get(outer, {}).get(name, "")
            if is_of_calls(frames[outer].file) and whole(arguments.get(name)) is None:
                arguments |= {name: value} if whole(value) is not None else {}
        return (PeerCall(frames=tuple(frames[place:]), arguments=arguments),) if arguments else ()
    return ()


def call_in(frames: Sequence[Frame], sources: Sequence[str], line: int | None) -> PeerCall | None:
    """Return the innermost such call on the stack of a traceback, by the text of who called it.

    ``sources`` are the lines of source below the frames. Only numbers that stand there count.
    """
    barrier = next((n for n, f in enumerate(frames) if f.function == "barrier"), None)
    if barrier is not None and any(_ZERO_FIRST.match(f.function) for f in frames[barrier:]):
        return PeerCall(frames=tuple(frames[barrier:]), arguments={_FIRST: "0"}, line=line)
    place = next((n for n, f in enumerate(frames) if argument_of(f.function, f.file)), None)
    outside = next((n for n, f in enumerate(frames) if "torch/distributed/" not in f.file), None)
    written = _TEXT_OF_CALL.search(sources[outside]) if outside is not None else None
    if place is None or outside is None or written is None:
        return None
    name = argument_of(frames[place].function, frames[place].file) or ""
    given = _arguments(sources[outside][written.end() :])
    named = dict(part.split("=", 1) for part in given if re.match(r"\w+=[^=]", part))
    positional = [part for part in given if not re.match(r"\w+=[^=]", part)]
    if name not in named and len(positional) > _PLACES[written[1]]:
        named[name] = positional[_PLACES[written[1]]]
    named.setdefault("group", "None")
    return PeerCall(frames=tuple(frames[place:]), arguments=named, line=line)


def _arguments(text: str) -> list[str]:
    """Split what stands in a call's parentheses at the commas that are its own."""
    parts, depth = [""], 0
    for char in text:
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                break
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return ["".join(part.split()) for part in parts]


def facts_of(
    calls: Sequence[PeerCall], who: Who, document: Document
) -> Iterator[Track | RootArgument]:
    """Yield a track for a process in a send or receive, a root for one in a broadcast."""
    for call in calls:
        called = call.frames[0]
        source = document.source(call.line)
        if called.function in _PEERS:
            yield from _track(source, who, call)
        elif (root := _root_of(call, who)) is not None:
            yield RootArgument(
                op=called.function,
                root=root,
                in_default_group=call.arguments.get("group") == "None",
                who=who,
                source=source,
            )


def _root_of(call: PeerCall, who: Who) -> int | None:
    """Return the root of a call; in a block that goes first it is the first rank of the host.

    Where the local rank is not known, that is rank 0 for those that mostly share a host with it.
    """
    named = whole(call.arguments.get(_ROOTS.get(call.frames[0].function, _FIRST)))
    if named is None or _FIRST not in call.arguments or who.rank is None:
        return named
    if who.local_rank is not None:
        return who.rank - who.local_rank
    return named if who.rank < GPUS_OF_A_HOST else None


def _track(source: Source, who: Who, call: PeerCall) -> Iterator[Track]:
    function = call.frames[0].function
    peer = whole(call.arguments.get(_PEERS[function]), LONGEST_RANK)
    if peer is None:
        return
    inside = Call(
        op=function.removeprefix("i"),
        state=CallState.INSIDE,
        p2p=True,
        peer=peer,
        tag=whole(call.arguments.get("tag"), LONGEST_RANK),
        frames=call.frames,
    )
    yield Track(who=who, group=_UNKNOWN_GROUP, kind=KIND, source=source, calls=(inside,))

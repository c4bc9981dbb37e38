"""Variables of the job's frames: few are kept of all that ``py-spy dump --json --locals`` prints.

Where ranks are told to meet: a program may name the place itself (``init_method="tcp://…"``,
``file://…``), take it from a file, or set MASTER_ADDR while it runs; then no environment tells it.
While a rank is inside ``init_process_group`` or ``init_rpc``, the arguments of that call do.

In which step of its loops a rank is: ranks that stand at one line look alike, though one may be a
step ahead. Of the user's own frames whole numbers are kept that have the name of a step, or with
which a loop around the line counts, and a checksum of all variables, which changes when the rank
goes on.

Which number a rank has that ``multiprocessing`` started: the local ``i`` of the frame
``_wrap (torch/multiprocessing/spawn.py)`` is its number on this host (torch 1.0 to 2.15). Programs
that use ``multiprocessing.Process`` themselves mostly call that argument ``rank``.
"""

import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping

from whyhang.analyzer.facts import (
    Address,
    Frame,
    InitArguments,
    LoopCounter,
    Record,
    Variables,
    Who,
    whole,
)
from whyhang.analyzer.redact import redact
from whyhang.analyzer.stacks.usercode import is_library, short
from whyhang.collectors.files.claims import CLAIMS
from whyhang.collectors.stacks.pyspy_json import PrintedFrame, Trace, read_traces

MOST = 64
"""Ranks asked on one host."""

_C10D = "torch/distributed/distributed_c10d.py"
_RAY = "ray/train/v2/_internal/execution/worker_group/thread_runner.py"
"""Runs the training function of a worker on a thread of its own."""
SPAWN = "torch/multiprocessing/spawn.py"
_NUMBERS = {"rank", "local_rank", "world_size", "size", "nprocs"}


def _integers(frame: PrintedFrame | None, names: set[str] = _NUMBERS) -> dict[str, int]:
    variables = (frame.locals or []) if frame is not None else []
    named = ((each.name, whole(each.repr)) for each in variables if each.name in names)
    return {name: number for name, number in named if number is not None}


# Where ranks are told to meet.

_INIT = ("init_process_group", "init_rpc")
_INIT_NAMES = {"init_method", "url", "hostname", "port", "rank", "world_size"}
_INIT_FILES = (
    _C10D,
    "torch/distributed/rendezvous.py",
    "torch/distributed/rpc/__init__.py",
    "torch/distributed/rpc/backend_registry.py",
)
_ADDRESS = re.compile(r"tcp://(?P<host>\[[^\]]+\]|[^:/\[\]]+):(?P<port>\d+)")


def starting(dumps: Mapping[int, bytes]) -> list[int]:
    """List the processes whose stack shows them inside ``init_process_group`` or ``init_rpc``."""
    calls = [name.encode() for name in _INIT]
    return [pid for pid, data in dumps.items() if any(name in data for name in calls)][:MOST]


def read_spot(who: Who, data: bytes) -> InitArguments | None:
    """Take the arguments of such a call; what is deeper is what counts."""
    for thread in read_traces(data):
        frames = [frame for frame in thread.frames if frame.filename.endswith(_INIT_FILES)]
        if any(frame.name in _INIT for frame in frames):
            given = {
                variable.name: str(variable.repr).strip("\"'")
                for frame in reversed(frames)
                for variable in frame.locals or ()
                if variable.name in _INIT_NAMES and variable.repr not in {None, "None", "-1"}
            }
            return InitArguments(
                address=_address(given),
                rank=whole(given.get("rank")),
                world_size=whole(given.get("world_size")),
                who=who,
                source=CLAIMS,
            )
    return None


def _address(arguments: Mapping[str, str]) -> Address | None:
    port = whole(arguments.get("port"))
    if "hostname" in arguments and port is not None:
        return Address(host=redact(arguments["hostname"]), port=port)
    url = arguments.get("url", arguments.get("init_method", ""))
    if url.startswith("file://"):
        return Address(file=redact(url.partition("?")[0].removeprefix("file://")))
    if match := _ADDRESS.match(url):
        return Address(host=redact(match["host"].strip("[]")), port=int(match["port"]))
    return None


# In which step of its loops a rank is.

_STEPS = "step|epoch|batch|iter|iteration|round_?"
_COUNTERS = re.compile(
    rf"(?:i|j|k|it|iters|{_STEPS}"
    rf"|(?!(?:best|last|max|min|num|total|start|first|resume|warmup|per)_)\w+_(?:{_STEPS})"
    rf"|(?:{_STEPS})_(?:i|id|idx|index|no|nb|num|number|count))"
)
"""Names of what a loop counts; not of sizes, limits and places in a data set, which may differ."""

_DIGITS = 12


def own_frames(pid: int, data: bytes) -> list[PrintedFrame]:
    """List the frames of user code of a main thread, innermost first."""
    main = next((thread for thread in read_traces(data) if thread.os_thread_id == pid), None)
    return [
        frame
        for frame in (main.frames if main is not None else ())
        if not is_library(Frame(function=frame.name, file=frame.filename, line=frame.line))
    ]


def read_counters(
    who: Who, data: bytes, of_loops: Callable[[str, int], Collection[str]] = lambda *_: ()
) -> Iterator[LoopCounter | Variables]:
    """Take the counters of a main thread, and a checksum of all its variables.

    ``of_loops`` gives the names with which the loops around a line of a file count.
    """
    frames = own_frames(who.pid or 0, data)
    for frame in frames:
        names = of_loops(frame.filename, frame.line)
        for variable in frame.locals or ():
            text = variable.repr or ""
            counts = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
            if not counts or not (variable.name in names or _COUNTERS.fullmatch(variable.name)):
                continue
            yield LoopCounter(
                name=variable.name,
                value=int(text),
                function=frame.name,
                file=short(frame.filename),
                who=who,
                source=CLAIMS,
            )
    if frames:
        own = [
            (f.name, f.line, [(each.name, each.repr) for each in f.locals or ()]) for f in frames
        ]
        checksum = zlib.crc32(repr(own).encode(errors="replace"))
        yield Variables(checksum=checksum, who=who, source=CLAIMS)


# Which number a rank has.


class Numbers(Record):
    """What the variables of a process say. ``size`` counts all ranks.

    ``joins``: it is what ``init_process_group`` was given.
    """

    local_rank: int | None = None
    rank: int | None = None
    size: int | None = None
    joins: bool = False


def read_numbers(data: bytes) -> Numbers:
    """Take the number of a rank and how many there are."""
    threads = read_traces(data)
    for thread in threads:
        for inner, frame in zip([None, *thread.frames], thread.frames, strict=False):
            name = frame.name.rpartition(".")[2]
            called = _integers(inner)
            size = called.get("world_size", called.get("size"))
            if name == "_wrap" and frame.filename.endswith(SPAWN):
                return Numbers(local_rank=_integers(frame, {"i"}).get("i"), size=size)
            if name == "start_processes" and frame.filename.endswith(SPAWN):
                return Numbers(size=_integers(frame).get("nprocs"))
            if name == "run" and frame.filename.endswith("multiprocessing/process.py"):
                rank = called.get("rank", called.get("local_rank"))
                return Numbers(local_rank=called.get("local_rank", rank), rank=rank, size=size)
    return _numbers_of_program(threads)


def _numbers_of_program(threads: list[Trace]) -> Numbers:
    """Read what a program that was started as a rank knows: what it joins as, or its variables."""
    mains = [t for t in threads if t.frames and t.frames[-1].name == "<module>"]
    rays = [t for t in threads if any(f.filename.endswith(_RAY) for f in t.frames)]
    frames = [*rays, *mains][0].frames if rays or mains else []
    calls = [f for f in frames if f.name == "init_process_group" and f.filename.endswith(_C10D)]
    for frame in (*calls, *reversed(frames)):
        numbers = _integers(frame, {"rank", "world_rank", "world_size"})
        rank = numbers.get("world_rank", numbers.get("rank"))
        if rank is not None:
            joins = frame in calls
            return Numbers(rank=rank, size=numbers.get("world_size"), joins=joins)
    return Numbers()

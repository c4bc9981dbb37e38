"""Variables of the job's frames: few are kept of all that ``py-spy dump --json --locals`` prints.

Where ranks are told to meet: a program may name the place itself (``init_method="tcp://…"``,
``file://…``), take it from a file, or set MASTER_ADDR while it runs; then no environment tells it.
While a rank is inside ``init_process_group``, the arguments of that call do.

In which step of its loops a rank is: ranks that stand at one line look alike, though one may be a
step ahead. Of the user's own frames whole numbers are kept that have the name of a step.

Which number a rank has that ``multiprocessing`` started: the local ``i`` of the frame
``_wrap (torch/multiprocessing/spawn.py)`` is its number on this host (torch 1.0 to 2.15). Programs
that use ``multiprocessing.Process`` themselves mostly call that argument ``rank``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from whyhang.analyzer.model import STEP_CLAIM, Claim, Frame, Record, Source, Who
from whyhang.analyzer.redact import redact
from whyhang.analyzer.waits.usercode import is_library, short

MOST = 64
"""Ranks asked on one host."""

_C10D = "torch/distributed/distributed_c10d.py"
_SPAWN = "torch/multiprocessing/spawn.py"
_NUMBERS = {"rank", "local_rank", "world_size", "size", "nprocs"}


class PyspyLocal(msgspec.Struct):
    """A variable."""

    name: str = ""
    repr: str | None = None


class PyspyFrame(msgspec.Struct):
    """A frame as py-spy prints it."""

    name: str = ""
    filename: str = ""
    line: int = 0
    locals: list[PyspyLocal] | None = None


class PyspyThread(msgspec.Struct):
    """A thread as py-spy prints it, the innermost frame first."""

    frames: list[PyspyFrame]
    os_thread_id: int | None = None


def read_threads(data: bytes) -> list[PyspyThread]:
    """Read what ``py-spy dump --json`` printed; nothing where it is damaged."""
    try:
        return msgspec.json.decode(data, type=list[PyspyThread])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _integers(frame: PyspyFrame | None, names: set[str] = _NUMBERS) -> dict[str, int]:
    variables = (frame.locals or []) if frame is not None else []
    return {
        variable.name: int(variable.repr)
        for variable in variables
        if variable.name in names and variable.repr is not None and variable.repr.isdecimal()
    }


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


# Where ranks are told to meet.

MEETS_AT, JOINS_AS, JOINS_OF = "meets_at", "joins_as", "joins_of"
"""What the claims are about: the address, the rank and the world size of the call."""

_INIT = b"init_process_group"
_INIT_NAMES = {"init_method", "url", "hostname", "port", "rank", "world_size"}
_INIT_FILES = (_C10D, "torch/distributed/rendezvous.py")
_ADDRESS = re.compile(r"(?:tcp://)?(?P<host>\[[^\]]+\]|[^:/\[\]]+):(?P<port>\d+)")


class Spot(Record):
    """What one rank was told: ``address`` is "host:port" or a ``file://`` URL."""

    pid: int
    address: str | None = None
    rank: int | None = None
    world_size: int | None = None

    def host_port(self) -> tuple[str, int] | None:
        """Split the address of a store that listens on a port."""
        match = _ADDRESS.match(self.address or "")
        return (match["host"].strip("[]"), int(match["port"])) if match else None


def starting(dumps: Mapping[int, bytes]) -> list[int]:
    """List the processes whose stack shows them inside ``init_process_group``."""
    return [pid for pid, data in dumps.items() if _INIT in data][:MOST]


def read_spot(pid: int, data: bytes) -> Spot | None:
    """Take the arguments of ``init_process_group``."""
    for thread in read_threads(data):
        frames = [frame for frame in thread.frames if frame.filename.endswith(_INIT_FILES)]
        if any(frame.name == "init_process_group" for frame in frames):
            return _spot(pid, dict(_said(frames)))
    return None


def _said(frames: Iterable[PyspyFrame]) -> Iterator[tuple[str, str]]:
    """Yield the arguments, the outer before the inner: what is deeper is what counts."""
    for frame in reversed(list(frames)):
        for variable in frame.locals or ():
            if variable.name in _INIT_NAMES and variable.repr not in {None, "None", "-1"}:
                yield variable.name, str(variable.repr).strip("\"'")


def _spot(pid: int, said: Mapping[str, str]) -> Spot:
    address = None
    if "hostname" in said and "port" in said:
        name = said["hostname"]
        address = f"[{name}]:{said['port']}" if ":" in name else f"{name}:{said['port']}"
    else:
        url = said.get("url", said.get("init_method", ""))
        if url.startswith("file://"):
            address = url.partition("?")[0]
        elif url.startswith("tcp://"):
            match = _ADDRESS.match(url)
            address = f"{match['host']}:{match['port']}" if match else None
    return Spot(
        pid=pid,
        address=None if address is None else redact(address),
        rank=_whole(said.get("rank")),
        world_size=_whole(said.get("world_size")),
    )


def claims_of(spots: Iterable[Spot], who: Mapping[int, Who]) -> Iterator[Claim]:
    """Put what the ranks were told into claims."""
    for spot in spots:
        told = {MEETS_AT: spot.address, JOINS_AS: spot.rank, JOINS_OF: spot.world_size}
        for about, value in told.items():
            if value is not None:
                yield Claim(
                    about=about,
                    value=str(value),
                    who=who[spot.pid],
                    source=Source(file="claims.json"),
                )


# In which step of its loops a rank is.

_STEPS = "step|epoch|batch|iter|iteration"
_COUNTERS = re.compile(
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


def read_counters(pid: int, data: bytes) -> list[Counter]:
    """Take the counters of a main thread."""
    main = next((thread for thread in read_threads(data) if thread.os_thread_id == pid), None)
    return [
        Counter(
            pid=pid,
            name=variable.name,
            value=int(variable.repr or ""),
            function=frame.name,
            file=short(frame.filename),
        )
        for frame in (main.frames if main is not None else ())
        if not is_library(Frame(function=frame.name, file=frame.filename, line=frame.line))
        for variable in frame.locals or ()
        if _counts(variable)
    ]


def _counts(variable: PyspyLocal) -> bool:
    text = variable.repr or ""
    whole = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return whole and _COUNTERS.fullmatch(variable.name) is not None


def claim_of(counter: Counter, who: Who) -> Claim:
    """Put a counter into the words of a claim: its value, then what counts."""
    what = f"{counter.name} in {counter.function} ({counter.file})"
    return Claim(
        about=STEP_CLAIM,
        value=f"{counter.value} {what}",
        who=who,
        source=Source(file="claims.json"),
    )


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
    threads = read_threads(data)
    for thread in threads:
        for inner, frame in zip([None, *thread.frames], thread.frames, strict=False):
            name = frame.name.rpartition(".")[2]
            called = _integers(inner)
            size = called.get("world_size", called.get("size"))
            if name == "_wrap" and frame.filename.endswith(_SPAWN):
                return Numbers(local_rank=_integers(frame, {"i"}).get("i"), size=size)
            if name == "start_processes" and frame.filename.endswith(_SPAWN):
                return Numbers(size=_integers(frame).get("nprocs"))
            if name == "run" and frame.filename.endswith("multiprocessing/process.py"):
                rank = called.get("rank", called.get("local_rank"))
                return Numbers(local_rank=called.get("local_rank", rank), rank=rank, size=size)
    return _numbers_of_program(threads)


def _numbers_of_program(threads: list[PyspyThread]) -> Numbers:
    """Read what a program that was started as a rank knows: what it joins as, or its variables."""
    main = next((t for t in threads if t.frames and t.frames[-1].name == "<module>"), None)
    frames = main.frames if main is not None else []
    calls = [f for f in frames if f.name == "init_process_group" and f.filename.endswith(_C10D)]
    for frame in (*calls, *reversed(frames)):
        said = _integers(frame, {"rank", "world_size"})
        if "rank" in said:
            joins = frame in calls
            return Numbers(rank=said["rank"], size=said.get("world_size"), joins=joins)
    return Numbers()

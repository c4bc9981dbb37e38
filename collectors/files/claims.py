"""The rows of ``claims.json`` in a bundle: statements, each as the text of what it is about.

This is where they are written and read back, and nowhere else are they texts.
"""

import re
from collections.abc import Callable, Iterator

from whyhang.analyzer.facts import (
    Address,
    CallArgument,
    DriverSilence,
    InitArguments,
    Library,
    Limit,
    LoopCounter,
    NearLimit,
    NoInterpreter,
    PartOfHost,
    Paused,
    Record,
    Setting,
    SettingName,
    Source,
    Statement,
    StepsWritten,
    Variables,
    Who,
    WorldSize,
)

COMPARED = "fingerprint:"
"""Begins what rows are about that is compared over ranks."""

_SETTINGS: dict[str, SettingName] = {
    "backend": "backend",
    "launcher": "launcher",
    "torch_version": "torch",
    "nccl_version": "nccl",
    **{f"{COMPARED}{name}": name for name in ("cuda", "driver", "nccl", "torch")},
}
_SCHEME = "file://"
_LIBRARY = re.compile(
    r"(?P<path>.*?)(?P<gone> \(deleted\))?, (?P<kind>build|inode) (?P<identity>\S+)"
)
_LIMITS: dict[Limit, re.Pattern[str]] = {
    "cpu-quota": re.compile(
        r"its CPU quota stopped it in (?P<measured>\d+) of (?P<of>\d+) periods between the looks"
    ),
    "group-memory": re.compile(
        r"its control group uses (?P<measured>\d+)% of its (?P<size>\d+\.\d) GiB"
    ),
    "oom-kills": re.compile(
        r"the kernel has killed (?P<measured>\d+) processes of its control group for memory"
    ),
    "load": re.compile(r"the load of the host is (?P<measured>\d+) on (?P<size>\d+) processors"),
    "host-memory": re.compile(r"(?P<measured>\d+)% of the memory of the host is available"),
}
_ARGUMENT = re.compile(
    r"(?P<name>\w+)=(?P<value>.*) of (?P<op>\w+) (?P<stands>at|in) (?P<function>.+?) "
    r"\((?P<file>.+):(?P<line>\d{1,9})\)",
    re.DOTALL,
)
_COUNTER = re.compile(r"(?P<value>\d{1,18}) (?P<name>\w+) in (?P<function>.+?) \((?P<file>.+)\)")


def _address(text: str) -> Address:
    if text.startswith(_SCHEME):
        return Address(file=text.removeprefix(_SCHEME))
    host, _, port = text.rpartition(":")
    return Address(host=host.strip("[]"), port=int(port))


_FIELDS: dict[str, tuple[type[Statement], str, Callable[[str], object]]] = {
    "world_size": (WorldSize, "size", int),
    "meets_at": (InitArguments, "address", _address),
    "joins_as": (InitArguments, "rank", int),
    "joins_of": (InitArguments, "world_size", int),
    "variables": (Variables, "checksum", int),
    "gpu-driver-hangs": (DriverSilence, "says", str),
    "steps-written": (StepsWritten, "text", str),
}
"""Statements whose row is the text of one field: which it is, and how it is read."""

_WORDS: dict[str, tuple[type[Statement], str]] = {
    "part-of-host": (PartOfHost, "whyhang ran in a container and saw its processes only"),
    "no-interpreter": (NoInterpreter, "py-spy finds no Python interpreter in the process"),
}
"""Statements that say all by their kind, and the words of their row."""


class ClaimRow(Record):
    """One row of the file."""

    about: str
    value: str
    who: Who
    source: Source


def rows(fact: Statement) -> Iterator[ClaimRow]:
    """Yield the rows in which a statement of a live run is written."""
    for about, value in _texts(fact):
        yield ClaimRow(about=about, value=value, who=fact.who, source=fact.source)


def _texts(fact: Statement) -> Iterator[tuple[str, str]]:
    for about, (kind, field, _) in _FIELDS.items():
        if isinstance(fact, kind) and (value := getattr(fact, field)) is not None:
            yield about, str(value)
    yield from ((about, words) for about, (kind, words) in _WORDS.items() if type(fact) is kind)
    match fact:
        case Setting(name="backend" | "launcher"):
            yield fact.name, fact.value
        case Setting(name="torch" | "nccl") if fact.who.pid is None:
            yield f"{fact.name}_version", fact.value
        case Setting():
            yield f"{COMPARED}{fact.name}", fact.value
        case Library():
            yield f"{COMPARED}{fact.name}", str(fact)
        case LoopCounter() | CallArgument():
            yield "step" if isinstance(fact, LoopCounter) else "argument", str(fact)
        case NearLimit():
            yield "pressure", fact.says
        case Paused():
            yield "paused", f"{fact.seconds:.3f} s in {fact.dumps} stack dumps"


def statement(row: ClaimRow) -> Statement | None:
    """Return what a row states; None where this version of whyhang does not know it.

    Raises ValueError where the text is not what such a row has.
    """
    about, value, who, source = row.about, row.value, row.who, row.source
    if about in _FIELDS:
        kind, field, read = _FIELDS[about]
        return kind(who=who, source=source, **{field: read(value)})
    if about in _WORDS:
        return _WORDS[about][0](who=who, source=source)
    if about in _SETTINGS:
        return Setting(name=_SETTINGS[about], value=value, who=who, source=source)
    if about == "step":
        return _counter(row)
    if about == "argument":
        return _argument(row)
    if about == "pressure":
        return _near_limit(row)
    if about == "paused":
        words = value.split()
        return Paused(seconds=float(words[0]), dumps=int(words[3]), who=who, source=source)
    return _library(row) if about.startswith(COMPARED) else None


def _near_limit(row: ClaimRow) -> NearLimit:
    for limit, pattern in _LIMITS.items():
        if match := pattern.fullmatch(row.value):
            numbers = match.groupdict()
            return NearLimit(
                limit=limit,
                measured=int(numbers["measured"]) / (100 if "%" in row.value else 1),
                size=float(numbers["size"]) if "size" in numbers else None,
                of=int(numbers["of"]) if "of" in numbers else None,
                who=row.who,
                source=row.source,
            )
    raise ValueError(f"no limit: {row.value}")


def _counter(row: ClaimRow) -> LoopCounter:
    match = _COUNTER.fullmatch(row.value)
    if match is None:
        raise ValueError(f"no counter: {row.value}")
    return LoopCounter(
        name=match["name"],
        value=int(match["value"]),
        function=match["function"],
        file=match["file"],
        who=row.who,
        source=row.source,
    )


def _argument(row: ClaimRow) -> CallArgument:
    match = _ARGUMENT.fullmatch(row.value)
    if match is None:
        raise ValueError(f"no argument: {row.value}")
    return CallArgument(
        op=match["op"],
        name=match["name"],
        value=match["value"],
        function=match["function"],
        file=match["file"],
        line=int(match["line"]),
        stands=match["stands"] == "at",
        who=row.who,
        source=row.source,
    )


def _library(row: ClaimRow) -> Library:
    match = _LIBRARY.fullmatch(row.value)
    if match is None:
        raise ValueError(f"no library: {row.value}")
    return Library(
        name=row.about.removeprefix(COMPARED),
        path=match["path"],
        deleted=match["gone"] is not None,
        build=match["identity"] if match["kind"] == "build" else None,
        inode=match["identity"] if match["kind"] == "inode" else None,
        who=row.who,
        source=row.source,
    )

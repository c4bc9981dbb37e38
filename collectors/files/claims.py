"""The rows of ``claims.json`` in a bundle: statements, each as the text of what it is about.

This is where they are written and read back, and nowhere else are they texts.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import (
    Address,
    DriverSilence,
    InitArguments,
    Library,
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
_COUNTER = re.compile(r"(?P<value>\d{1,18}) (?P<name>\w+) in (?P<function>.+?) \((?P<file>.+)\)")


class Row(Record):
    """One row of the file."""

    about: str
    value: str
    who: Who
    source: Source


def rows(fact: Statement) -> Iterator[Row]:
    """Yield the rows in which a statement of a live run is written."""
    for about, value in _texts(fact):
        yield Row(about=about, value=value, who=fact.who, source=fact.source)


def _texts(fact: Statement) -> Iterator[tuple[str, str]]:  # noqa: C901 - one case per type
    match fact:
        case Setting(name="backend" | "launcher"):
            yield fact.name, fact.value
        case Setting(name="torch" | "nccl") if fact.who.pid is None:
            yield f"{fact.name}_version", fact.value
        case Setting():
            yield f"{COMPARED}{fact.name}", fact.value
        case Library():
            yield f"{COMPARED}{fact.name}", str(fact)
        case WorldSize():
            yield "world_size", str(fact.size)
        case InitArguments():
            if fact.address is not None:
                yield "meets_at", str(fact.address)
            if fact.rank is not None:
                yield "joins_as", str(fact.rank)
            if fact.world_size is not None:
                yield "joins_of", str(fact.world_size)
        case LoopCounter():
            yield "step", f"{fact.value} {fact.name} in {fact.function} ({fact.file})"
        case Paused():
            yield "paused", f"{fact.seconds:.3f} s in {fact.dumps} stack dumps"
        case PartOfHost():
            yield "part-of-host", "whyhang ran in a container and saw its processes only"
        case Variables():
            yield "variables", str(fact.checksum)
        case NoInterpreter():
            yield "no-interpreter", "py-spy finds no Python interpreter in the process"
        case NearLimit():
            yield "pressure", fact.says
        case DriverSilence():
            yield "gpu-driver-hangs", fact.says


def statement(row: Row) -> Statement | None:  # noqa: C901 - one case per type
    """Return what a row states; None where this version of whyhang does not know it.

    Raises ValueError where the text is not what such a row has.
    """
    about, value, who, source = row.about, row.value, row.who, row.source
    match about:
        case "world_size":
            return WorldSize(size=int(value), who=who, source=source)
        case "meets_at":
            return InitArguments(address=_address(value), who=who, source=source)
        case "joins_as":
            return InitArguments(rank=int(value), who=who, source=source)
        case "joins_of":
            return InitArguments(world_size=int(value), who=who, source=source)
        case "step":
            return _counter(row)
        case "paused":
            words = value.split()
            return Paused(seconds=float(words[0]), dumps=int(words[3]), who=who, source=source)
        case "part-of-host":
            return PartOfHost(who=who, source=source)
        case "variables":
            return Variables(checksum=int(value), who=who, source=source)
        case "no-interpreter":
            return NoInterpreter(who=who, source=source)
        case "pressure":
            return NearLimit(says=value, who=who, source=source)
        case "gpu-driver-hangs":
            return DriverSilence(says=value, who=who, source=source)
    if about in _SETTINGS:
        return Setting(name=_SETTINGS[about], value=value, who=who, source=source)
    return _library(row) if about.startswith(COMPARED) else None


def _address(text: str) -> Address:
    if text.startswith(_SCHEME):
        return Address(file=text.removeprefix(_SCHEME))
    host, _, port = text.rpartition(":")
    return Address(host=host.strip("[]"), port=int(port))


def _counter(row: Row) -> LoopCounter:
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


def _library(row: Row) -> Library:
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

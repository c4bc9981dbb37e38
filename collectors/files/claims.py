"""The rows of ``claims.json`` in a bundle: statements, each as the text of what it is about.

This is where they are written and read back, and nowhere else are they texts.
"""

import re
from collections.abc import Callable, Iterator

import msgspec

from whyhang.analyzer.facts import (
    Address,
    CallArgument,
    DriverSilence,
    HostAddress,
    HostSilence,
    InitArguments,
    Library,
    LoopCounter,
    NearLimit,
    NetworkPort,
    NoInterpreter,
    PartOfHost,
    Paused,
    Record,
    Setting,
    SettingName,
    Source,
    Statement,
    StepsWritten,
    StepsWrittenBefore,
    Variables,
    Who,
    WorldSize,
)
from whyhang.analyzer.toml import table

CLAIMS = Source(file="claims.json")
"""Of what a live job tells."""

COMPARED = "fingerprint:"  # begins what rows are about that is compared over ranks
_SETTINGS: dict[str, SettingName] = {
    "backend": "backend",
    "launcher": "launcher",
    "torch_version": "torch",
    "nccl_version": "nccl",
    **{f"{COMPARED}{name}": name for name in ("cuda", "driver", "nccl", "torch")},
}
_SCHEME = "file://"
_KINDS: dict[str, type[Statement]] = {
    "step": LoopCounter,
    "argument": CallArgument,
    "paused": Paused,
    "interface": NetworkPort,
}
_TABLE: dict[str, dict[str, str]] = table(__package__, "claims.toml")
_FORMS, _LIMITS = _TABLE["forms"], _TABLE["limits"]
_FLAGS = {"stands", "deleted"}
"""Fields that are true where something stands in the row."""


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
    "no-answer": (HostSilence, "why", str),
    "host-address": (HostAddress, "address", str),
    "steps-written": (StepsWritten, "text", str),
    "steps-written-before": (StepsWrittenBefore, "text", str),
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
        case NetworkPort():
            yield "interface", fact.quote
        case _:
            yield from _texts_of_several(fact)


def _texts_of_several(fact: Statement) -> Iterator[tuple[str, str]]:
    """Yield the rows of statements of which several fields are told."""
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
    if about == "pressure":
        for limit, form in _LIMITS.items():
            if re.fullmatch(form, value):
                return _taken_apart(row, NearLimit, form, limit=limit)
        raise ValueError(f"no limit: {value}")
    if about in _KINDS:
        return _taken_apart(row, _KINDS[about], _FORMS[about])
    if about.startswith(COMPARED):
        return _taken_apart(row, Library, _FORMS["library"], name=about.removeprefix(COMPARED))
    return None


def _taken_apart(row: ClaimRow, kind: type[Statement], form: str, **more: str) -> Statement:
    """Return the statement whose fields a row names; their types say how each is read."""
    match = re.fullmatch(form, row.value, re.DOTALL)
    if match is None:
        raise ValueError(f"no {row.about}: {row.value}")
    read: dict[str, object] = {**more, **match.groupdict()}
    read |= {name: read[name] is not None for name in _FLAGS & read.keys()}
    if "percent" in read:
        read["measured"] = int(match["percent"]) / 100
    if kind is NetworkPort:
        addresses = (match["addresses"] or "").split()
        read |= {"quote": row.value, "up": match["state"] == "up", "addresses": addresses}
    who_and_where = {"who": row.who, "source": row.source}
    return msgspec.convert({**read, **who_and_where}, kind, strict=False)

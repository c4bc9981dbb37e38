"""Flight recorder dumps: what each rank's recorder holds of its collectives.

torch writes one file per rank, a pickle (or JSON through the debug server), when the watchdog
finds a timeout: ``nccl_trace_rank_3``, since torch 2.9 ``comm_lib_trace_rank_3``, and by other
names where jobs choose the prefix. The formats from torch 2.2 (a bare list of entries) to the
newest are read alike; files are recognised by what is in them. Nothing in a dump is ever run:
see ``unpickle.py``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from whyhang.analyzer.facts import Call, Fact, Gap, Trust, UnsafeDump, Who, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors.flight_recorder import torch_dump, unpickle
from whyhang.collectors.flight_recorder.groups import default_group_size
from whyhang.collectors.flight_recorder.torch_dump import Dump
from whyhang.collectors.flight_recorder.tracks import (
    Place,
    calls_of_group,
    facts,
)

_NAMED = re.compile(
    r"(?:(?:nccl|comm_lib|hccl|xccl|rccl|mccl|fr)_trace_rank_|(?:^|[/_.-])(?:fr|flight_recorder)_?"
    r"(?:trace|dump)[^/]*\d)[^/]*$",
    re.IGNORECASE,
)
_RANK_IN_NAME = (
    re.compile(r"(?:trace|dump)[-_.]?(\d{1,6})(?:\.[A-Za-z]\w*)*$"),
    re.compile(r"(\d{1,6})(?:\.[A-Za-z]{1,12})*$"),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_KEYS = (b"pg_config", b"profiling_name", b"collective_seq_id", b"record_id")
_COST = "where this rank stands is not known from its recorder"


class FlightRecorder:
    """Reads dumps of torch's flight recorder, pickled or JSON."""

    name = "PyTorch flight recorder dump"

    def sniff(self, document: Document) -> bool:
        """Recognise a dump by its keys; by its name where it is empty or nothing is left of it."""
        head = document.head
        told = any(key in head for key in _KEYS)
        if _PICKLE.match(head):
            return told or _NAMED.search(document.path) is not None
        if head.lstrip()[:1] in {b"{", b"["}:
            return (told and b'"entries"' in head) or b'"profiling_name"' in head
        return _NAMED.search(document.path) is not None and not _is_text(head)

    def owns(self, document: Document) -> bool:
        """Say that a dump holds nothing for any other reader."""
        return self.sniff(document)

    def apart(self, start: bytes, size: int) -> bool:  # noqa: ARG002 - dumps are small
        """Say that pickles come by the thousand and can be read side by side."""
        return _PICKLE.match(start) is not None

    def ready(self) -> None:
        """All is loaded."""

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield the rank's groups and how far it came on each, or why that cannot be read."""
        who = _who(document)
        try:
            data = _whole(document)
            dump = _load(data)
        except unpickle.UnsafePickleError as error:
            yield from _unsafe(document, who, str(error))
        except (unpickle.BadPickleError, OSError) as error:
            yield _gap(document, who, str(error))
        else:
            if dump.cut:
                yield _gap(document, who, "it is cut off in the middle", partial=True)
            place = Place(
                who=who,
                source=document.source(),
                look=document.look or 0,
                again=functools.partial(_again, document.open),
                written_at=_written_at(document),
            )
            yield from facts(dump, place)


def world_size_of(data: bytes) -> int | None:
    """Tell how many ranks the job of a dump has, or None where it does not say."""
    try:
        top = _load(data).top
    except (unpickle.UnsafePickleError, unpickle.BadPickleError):
        return None
    return default_group_size(top)


def _load(data: bytes, *, everything: bool = False) -> Dump:
    """Build a dump from its bytes.

    Raises ``unpickle.UnsafePickleError`` or ``unpickle.BadPickleError``.
    """
    if not data:
        raise unpickle.BadPickleError("it is empty")
    if not _PICKLE.match(data):
        return _shaped(_json(data))
    quick = torch_dump.build(data, everything=everything)
    return quick if quick is not None else _shaped(unpickle.load(data))


def _json(data: bytes) -> object:
    if len(data) > unpickle.MAX_BYTES:
        raise unpickle.BadPickleError(f"it is larger than {unpickle.MAX_BYTES >> 20} MiB")
    if data.lstrip()[:1] not in {b"{", b"["}:
        raise unpickle.BadPickleError("it is neither a pickle nor JSON")
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise unpickle.BadPickleError(f"its JSON is damaged ({error})") from error


def _shaped(value: object) -> Dump:
    """Find the entries: under ``entries``, or as the whole (torch 2.2)."""
    top: dict[object, object] = {}
    entries = value
    if isinstance(value, dict):
        top = {key: part for key, part in value.items() if key != "entries"}
        entries = value.get("entries", [])
    if not isinstance(entries, list | tuple):
        raise unpickle.BadPickleError("it has no list of entries")
    return Dump(top=top, entries=list(entries), first=entries[0] if entries else None)


def _again(opener: Callable[[], BinaryIO], group: str) -> tuple[Call, ...]:
    """Read all calls of one group once more; nothing where the file has changed meanwhile."""
    try:
        return calls_of_group(_everything(opener), group)
    except (unpickle.UnsafePickleError, unpickle.BadPickleError, OSError):
        return ()


@functools.lru_cache(maxsize=2)  # a rank is asked for one group after the other
def _everything(opener: Callable[[], BinaryIO]) -> Dump:
    with opener() as stream:
        return _load(stream.read(unpickle.MAX_BYTES), everything=True)


def _whole(document: Document) -> bytes:
    """Read the file, once: the head is all there is of a small one."""
    if document.size <= len(document.head):
        return document.head
    if document.size > unpickle.MAX_BYTES:
        raise unpickle.BadPickleError(f"it is larger than {unpickle.MAX_BYTES >> 20} MiB")
    with document.open() as stream:
        return stream.read(unpickle.MAX_BYTES)


def _written_at(document: Document) -> float | None:
    """Tell when a dump was written: what its bundle says, or the file system."""
    if document.taken_at is not None or document.local is None:
        return document.taken_at
    try:
        return Path(document.local).stat().st_mtime
    except OSError:
        return None


def _who(document: Document) -> Who:
    """Take the rank from the name, in which a recorder's dump always has it last."""
    who = document.who
    if who.rank is None:
        name = document.path.rpartition("/")[2]
        found = next((match for form in _RANK_IN_NAME if (match := form.search(name))), None)
        return who if found is None else replace(who, rank=int(found[1]), trust=Trust.FILE_NAME)
    return replace(who, trust=max(who.trust, Trust.FILE_NAME))


def _is_text(head: bytes) -> bool:
    return bool(head) and b"\0" not in head[:4096] and head[:1].isascii() and head[:1] != b"\x80"


def _gap(document: Document, who: Who, why: str, *, partial: bool = False) -> Gap:
    return Gap(
        what=f"flight recorder dump {document.path}",
        why=why,
        cost="the newest calls of this rank are not known" if partial else _COST,
        remedy="Copy the file again, or take the rank's stack instead",
        who=who,
        source=document.source(),
    )


def _unsafe(document: Document, who: Who, wanted: str) -> Iterator[Fact]:
    """Say that a dump asks for code. torch never writes such a one; it was not run."""
    yield UnsafeDump(code=wanted, who=who, source=document.source())
    yield Gap(
        what=f"flight recorder dump {document.path}",
        why=f"it asks to run code when it is unpickled ({wanted}), which no recorder writes; "
        "it was not run",
        cost=_COST,
        remedy="Find out who wrote this file, and do not open it with pickle or torchfrtrace",
        who=who,
        source=document.source(),
    )

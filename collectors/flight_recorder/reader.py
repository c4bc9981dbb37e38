"""Flight recorder dumps: what each rank's recorder holds of its collectives.

torch writes one file per rank, a pickle (or JSON through the debug server), when the watchdog
finds a timeout: ``nccl_trace_rank_3``, since torch 2.9 ``comm_lib_trace_rank_3``, and by other
names where jobs choose the prefix. The formats from torch 2.2 (a bare list of entries) to the
newest are read alike; files are recognised by what is in them. Nothing in a dump is ever run:
see ``pickles.py``.
"""

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from whyhang.analyzer.facts import Call, Fact, Trust, UnsafeDump, Who, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors.flight_recorder import excerpt, pickles
from whyhang.collectors.flight_recorder.contents import calls_by_group
from whyhang.collectors.flight_recorder.entries import read_rows
from whyhang.collectors.flight_recorder.excerpt import DumpExcerpt
from whyhang.collectors.flight_recorder.groups import groups_of
from whyhang.collectors.flight_recorder.pickles import MAX_BYTES, BadPickleError, UnsafePickleError
from whyhang.collectors.flight_recorder.tracks import DumpFile, facts

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
# Protocols 0 and 1, which may look like text: a memoised dict or list, or a name to call.
_OLD_PICKLE = re.compile(
    rb"\(*(?:[dl]p\d+\r?\n|[}\]]q\x00|c[A-Za-z_][\w.]*\n\w+\n(?:p\d+\n|q.|\((?:[SUVX]|[tdl]p?)))",
    re.DOTALL,
)
_KEYS = (b"pg_config", b"profiling_name", b"collective_seq_id", b"record_id")
_COST = "where this rank stands is not known from its recorder"
_COPY = "Copy the file again, or take the rank's stack instead"


class FlightRecorder:
    """Reads dumps of torch's flight recorder, pickled or JSON."""

    name = "PyTorch flight recorder dump"

    def sniff(self, document: Document) -> bool:
        """Recognise a dump by its keys; by its name where it is empty or nothing is left of it."""
        head = document.head
        if _PICKLE.match(head):
            return _is_of_recorder(document)
        if _OLD_PICKLE.match(head):
            # It begins with what it would call, and ends as every pickle does.
            calls = head.lstrip(b"(").startswith(b"c") and head.rstrip().endswith(b".")
            named = document.path.endswith((".pkl", ".pickle"))
            return calls or named or _is_of_recorder(document)
        if head.lstrip()[:1] in {b"{", b"["}:
            keys = any(key in head for key in _KEYS)
            return (keys and b'"entries"' in head) or b'"profiling_name"' in head
        is_text = b"\0" not in head[:4096] and head[:1].isascii() and head[:1] != b"\x80"
        return _NAMED.search(document.path) is not None and not (head and is_text)

    owns = sniff  # nothing in it is for any other reader

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield the rank's groups and how far it came on each, or why that cannot be read."""
        file = DumpFile(
            who=_who(document),
            source=document.source(),
            look=document.look or 0,
            again=functools.partial(_again, document.open),
            written_at=_written_at(document),
        )
        try:
            dump = _load(_content(document))
        except UnsafePickleError as error:
            if _is_of_recorder(document):
                yield UnsafeDump(code=str(error), who=file.who, source=file.source)
            yield file.gap(
                f"it asks to run code when it is unpickled ({error}), which no recorder writes; "
                "it was not run",
                _COST,
                "Find out who wrote this file, and do not open it with pickle or torchfrtrace",
            )
        except (BadPickleError, OSError) as error:
            yield file.gap(str(error), _COST, _COPY)
        else:
            if dump.cut:
                cost = "the newest calls of this rank are not known"
                yield file.gap("it is cut off in the middle", cost, _COPY)
            yield from facts(dump, file)


def world_size_of(data: bytes) -> int | None:
    """Return how many ranks the job of a dump has, or None where it does not say."""
    try:
        groups = groups_of(_load(data).top, ()).values()
    except (UnsafePickleError, BadPickleError):
        return None
    sizes = (
        len(group.ranks) for group in groups if group.description == "default_pg" and group.ranks
    )
    return next(sizes, None)


def time_limits_of(data: bytes) -> frozenset[float]:
    """Return after how many seconds the calls of a dump are given up; empty where none says."""
    try:
        rows = read_rows(_load(data).entries)
    except (UnsafePickleError, BadPickleError):
        return frozenset()
    return frozenset(row.limit for row in rows if row.limit)


def _load(data: bytes, *, everything: bool = False) -> DumpExcerpt:
    """Build a dump from its bytes. Raises ``UnsafePickleError`` or ``BadPickleError``."""
    if _PICKLE.match(data):
        return excerpt.read(data, everything=everything)
    if _OLD_PICKLE.match(data):
        pickles.refuse_old(data)
    if data.lstrip()[:1] not in {b"{", b"["}:
        raise BadPickleError("it is neither a pickle nor JSON" if data else "it is empty")
    try:
        return excerpt.shaped(msgspec.json.decode(data))
    except (ValueError, RecursionError) as error:
        raise BadPickleError(f"its JSON is damaged ({error})") from error


def _again(opener: Callable[[], BinaryIO], group: str) -> tuple[Call, ...]:
    """Read all calls of one group once more; nothing where the file has changed meanwhile."""
    return _all_calls(opener).get(group, ())


@functools.lru_cache(maxsize=8)  # the few ranks that are asked for all their calls
def _all_calls(opener: Callable[[], BinaryIO]) -> dict[str, tuple[Call, ...]]:
    try:
        with opener() as stream:
            return calls_by_group(_load(stream.read(MAX_BYTES), everything=True))
    except (UnsafePickleError, BadPickleError, OSError):
        return {}


def _content(document: Document) -> bytes:
    """Read the file, once: the head is all there is of a small one."""
    if document.size <= len(document.head):
        return document.head
    if document.size > MAX_BYTES:
        raise BadPickleError(f"it is larger than {MAX_BYTES >> 20} MiB")
    return document.content(MAX_BYTES)


def _written_at(document: Document) -> float | None:
    """Return when a dump was written: what its bundle says, or the file system."""
    if document.taken_at is not None or document.local is None:
        return document.taken_at
    try:
        return Path(document.local).stat().st_mtime
    except OSError:
        return None


def _who(document: Document) -> Who:
    """Take the rank from the name, in which a recorder's dump always has it last."""
    who = document.who
    if who.rank is not None:
        return replace(who, trust=max(who.trust, Trust.FILE_NAME))
    name = document.path.rpartition("/")[2]
    rank = next((match[1] for form in _RANK_IN_NAME if (match := form.search(name))), None)
    return who if rank is None else replace(who, rank=int(rank), trust=Trust.FILE_NAME)


def _is_of_recorder(document: Document) -> bool:
    keys = any(key in document.head for key in _KEYS)
    return keys or _NAMED.search(document.path) is not None

"""The RAS report as JSON (NCCL 2.28.7 and newer).

Written by ``rasDumpCommsToJSON`` of ``src/ras/client_support.cc``. 2.28.7 to 2.28.9 forget a
comma after ``nvml_dev`` in ``missing_ranks``; that is put in before reading. Of an answer that
is cut off, the communicators that are whole are read.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from whyhang.analyzer.facts import Record, replace
from whyhang.collectors import limits
from whyhang.collectors.ops import op_of
from whyhang.collectors.ras.report import (
    ABORTED,
    DEAD,
    LEAVING,
    LEFT,
    STARTING,
    UNRESPONSIVE,
    Comm,
    Peer,
    RasDocument,
    RasMember,
)

_FORGOTTEN_COMMA = limits.compile(r'("nvml_dev": -?\d++)(\s*+"status")')
_COMM = limits.compile(r'\{\s*+"hash"\s*+:')
_VERSION = limits.compile(r'"nccl_version"\s*+:\s*+"([^"]++)"')
_RESULTS = {  # ncclResult_t, in the words of the text report
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
    8: "Timeout",
}
_IN_PROGRESS = 7


class _Status(Record):
    """How a rank is; the last two are of missing ranks, the others of those that answered."""

    init_state: int = 0
    async_error: int = 0
    finalize_called: bool = False
    destroy_flag: bool = False
    abort_flag: bool = False
    considered_dead: bool = False
    unresponsive: bool = False

    @property
    def state(self) -> str:
        """The word for it in a report."""
        if self.init_state == _IN_PROGRESS:
            return STARTING
        if self.abort_flag:
            return ABORTED
        return LEAVING if self.finalize_called or self.destroy_flag else ""

    @property
    def missing(self) -> str:
        """The word for it where the rank is missing."""
        return DEAD if self.considered_dead else UNRESPONSIVE if self.unresponsive else LEFT


class _Rank(Record):
    rank: int
    host: str | None = None
    pid: int = 0
    cuda_dev: int = -1
    status: _Status = _Status()
    collective_counts: dict[str, int] | None = None


class _Communicator(Record):
    hash: str
    size: int | None = None
    ranks: list[dict[str, Any]] = []
    missing_ranks: list[dict[str, Any]] = []


def parse(text: str) -> RasDocument | None:
    """Read a report; what stands before its first brace is passed over. None if it is none."""
    mended = _FORGOTTEN_COMMA.sub(r"\1,\2", text)
    try:
        report, _ = json.JSONDecoder().raw_decode(mended, max(mended.find("{"), 0))
    except (ValueError, RecursionError):
        return _salvaged(mended)
    if not isinstance(report, dict) or not isinstance(report.get("communicators"), list):
        return None
    comms = [comm for row in report["communicators"] if (comm := _comm(row)) is not None]
    lines = [line for _, line in _places(text)]
    if len(lines) == len(comms):
        comms = [replace(comm, line=line) for comm, line in zip(comms, lines, strict=True)]
    return _report(report, comms, cut=False)


def _places(text: str) -> Iterator[tuple[int, int]]:
    """Yield where communicators begin: the offset and the line, counted on from one to the next."""
    line, counted = 1, 0
    for match in _COMM.finditer(text):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        yield counted, line


def _salvaged(text: str) -> RasDocument | None:
    """Read what is whole of a damaged answer."""
    decoder = json.JSONDecoder()
    comms = []
    for start, line in _places(text):
        try:
            comm = _comm(decoder.raw_decode(text, start)[0])
        except (ValueError, RecursionError):
            continue
        if comm is not None:
            comms.append(replace(comm, line=line))
    if not comms and '"communicators"' not in text:
        return None
    version = _VERSION.search(text)
    return _report({"nccl_version": version[1]} if version else {}, comms, cut=True)


def _report(head: dict[str, Any], comms: list[Comm], *, cut: bool) -> RasDocument:
    ras, version = head.get("ras"), head.get("nccl_version")
    timeouts = ras.get("timeouts_count") if isinstance(ras, dict) else 0
    return RasDocument(
        comms=tuple(comms),
        version=version if isinstance(version, str) else None,
        timeouts=timeouts if isinstance(timeouts, int) else 0,
        cut=cut,
    )


def _comm(row: object) -> Comm | None:
    try:
        comm = msgspec.convert(row, _Communicator)
        number = int(comm.hash[:40], 16)
    except ValueError:
        return None
    members = (*_members(comm.ranks), *_members(comm.missing_ranks, missing=True))
    return Comm(hash=number, size=comm.size, members=members, whole=True)


def _members(rows: list[dict[str, Any]], *, missing: bool = False) -> Iterator[RasMember]:
    for row in rows:
        try:
            one = msgspec.convert(row, _Rank)
        except msgspec.ValidationError:
            continue
        codes, counts = (one.status.init_state, one.status.async_error), one.collective_counts
        # What matters of a row: it is spread over twenty lines.
        kept = ["rank", "host", "pid", "collective_counts"]
        if missing or one.status != _Status():
            kept.append("status")
        yield RasMember(
            rank=one.rank,
            peer=Peer(
                node=one.host if one.host != "unknown" else None,
                pid=one.pid if one.pid > 0 else None,
                gpu=str(one.cuda_dev) if one.cuda_dev >= 0 else "",
            ),
            counts=None if counts is None else {op_of(op): each for op, each in counts.items()},
            state=one.status.missing if missing else one.status.state,
            error=next((_RESULTS[code] for code in codes if code in _RESULTS), ""),
            quote=json.dumps({name: row[name] for name in kept if name in row})[1:-1][:400],
        )

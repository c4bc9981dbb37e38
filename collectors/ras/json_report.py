"""The RAS report as JSON (NCCL 2.28.7 and newer).

Written by ``rasDumpCommsToJSON`` of ``src/ras/client_support.cc``. 2.28.7 to 2.28.9 forget a
comma after ``nvml_dev`` in ``missing_ranks``; that is put in before reading. Of an answer that
is cut off, the communicators that are whole are read.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from whyhang.analyzer.facts import replace
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
_FINE = {
    "init_state": 0,
    "async_error": 0,
    "finalize_called": False,
    "destroy_flag": False,
    "abort_flag": False,
}

Object = dict[str, Any]


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


def _report(head: Object, comms: list[Comm], *, cut: bool) -> RasDocument:
    ras, version = head.get("ras"), head.get("nccl_version")
    return RasDocument(
        comms=tuple(comms),
        version=version if isinstance(version, str) else None,
        timeouts=_whole(ras.get("timeouts_count")) or 0 if isinstance(ras, dict) else 0,
        cut=cut,
    )


def _comm(row: object) -> Comm | None:
    if not isinstance(row, dict):
        return None
    try:
        number = int(str(row["hash"])[:40], 16)
    except (KeyError, ValueError):
        return None
    members = (
        *_members(row.get("ranks"), _state),
        *_members(row.get("missing_ranks"), _missing_state),
    )
    return Comm(hash=number, size=_whole(row.get("size")), members=members, whole=True)


def _members(rows: object, state: Callable[[Object], str]) -> Iterator[RasMember]:
    for row in rows if isinstance(rows, list) else ():
        rank = _whole(row.get("rank")) if isinstance(row, dict) else None
        if rank is None:
            continue
        status = row.get("status")
        status = status if isinstance(status, dict) else {}
        codes = _whole(status.get("init_state")), _whole(status.get("async_error"))
        yield RasMember(
            rank=rank,
            peer=_peer(row),
            counts=_counts(row.get("collective_counts")),
            state=state(status),
            error=next((_RESULTS[code] for code in codes if code in _RESULTS), ""),
            quote=_quote(row),
        )


def _counts(counts: object) -> dict[str, int] | None:
    if not isinstance(counts, dict):
        return None
    numbers = ((op_of(name), _whole(value)) for name, value in counts.items())
    return {op: number for op, number in numbers if number is not None}


def _state(status: Object) -> str:
    if _whole(status.get("init_state")) == _IN_PROGRESS:
        return STARTING
    if status.get("abort_flag") is True:
        return ABORTED
    ends = status.get("finalize_called") is True or status.get("destroy_flag") is True
    return LEAVING if ends else ""


def _missing_state(status: Object) -> str:
    if status.get("considered_dead") is True:
        return DEAD
    return UNRESPONSIVE if status.get("unresponsive") is True else LEFT


def _peer(row: Object) -> Peer:
    node, pid, gpu = row.get("host"), _whole(row.get("pid")), _whole(row.get("cuda_dev"))
    return Peer(
        node=node if isinstance(node, str) and node != "unknown" else None,
        pid=pid if pid is not None and pid > 0 else None,
        gpu="" if gpu is None or gpu < 0 else str(gpu),
    )


def _quote(row: Object) -> str:
    """Quote what matters of a row: it is spread over twenty lines."""
    kept = ["rank", "host", "pid", "collective_counts"]
    if row.get("status") != _FINE:
        kept.append("status")
    return json.dumps({name: row[name] for name in kept if name in row})[1:-1][:400]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

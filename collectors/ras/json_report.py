"""The RAS report as JSON (NCCL 2.28.7 and newer).

Written by ``rasDumpCommsToJSON`` of ``src/ras/client_support.cc``. 2.28.7 to 2.28.9 forget a
comma after ``nvml_dev`` in ``missing_ranks``; that is put in before reading. Of an answer that
is cut off, the communicators that are whole are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from whyhang.analyzer.facts import replace
from whyhang.collectors.ras.report import (
    ABORTED,
    DEAD,
    LEAVING,
    LEFT,
    OPS,
    STARTING,
    UNRESPONSIVE,
    Comm,
    Member,
    Peer,
    Report,
)

_FORGOTTEN_COMMA = re.compile(r'("nvml_dev": -?\d+)(\s*\n\s*"status")')
_COMM = re.compile(r'\{\s*"hash"\s*:')
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


def parse(text: str) -> Report | None:
    """Read a report; what stands before its first brace is passed over. None if it is none."""
    begin = text.find("{")
    if begin < 0:
        return None
    mended = _FORGOTTEN_COMMA.sub(r"\1,\2", text)
    begin = mended.find("{")
    try:
        whole, _ = json.JSONDecoder().raw_decode(mended, begin)
    except (ValueError, RecursionError):
        return _salvaged(mended)
    if not isinstance(whole, dict) or not isinstance(whole.get("communicators"), list):
        return None
    found = (comm for comm in whole["communicators"] if isinstance(comm, dict))
    places = [line for _, line in _places(text)]
    comms = tuple(comm for comm in map(_comm, found) if comm is not None)
    if len(places) == len(comms):
        comms = tuple(replace(c, line=line) for c, line in zip(comms, places, strict=True))
    return _report(whole, comms, cut=False)


def _places(text: str) -> Iterator[tuple[int, int]]:
    """Find where communicators begin: the offset and the line, counted on from one to the next."""
    line, counted = 1, 0
    for found in _COMM.finditer(text):
        line += text.count("\n", counted, found.start())
        counted = found.start()
        yield counted, line


def _salvaged(text: str) -> Report | None:
    """Read what is whole of a damaged answer."""
    decoder = json.JSONDecoder()
    comms = []
    for start, line in _places(text):
        try:
            found, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        comm = _comm(found)
        if comm is not None:
            comms.append(replace(comm, line=line))
    if not comms and '"communicators"' not in text:
        return None
    version = re.search(r'"nccl_version"\s*:\s*"([^"]+)"', text)
    head = {"nccl_version": version[1]} if version else {}
    return _report(head, tuple(comms), cut=True)


def _report(head: Object, comms: tuple[Comm, ...], *, cut: bool) -> Report:
    ras = head.get("ras")
    version, time = head.get("nccl_version"), head.get("timestamp")
    return Report(
        comms=comms,
        version=version if isinstance(version, str) else None,
        time=time if isinstance(time, str) else None,
        timeouts=_whole(ras.get("timeouts_count")) or 0 if isinstance(ras, dict) else 0,
        cut=cut,
    )


def _comm(told: Object) -> Comm | None:
    try:
        number = int(str(told["hash"]), 16)
    except (KeyError, ValueError):
        return None
    members = [*_members(told.get("ranks"), _present), *_members(told.get("missing_ranks"), _gone)]
    return Comm(hash=number, size=_whole(told.get("size")), members=tuple(members), whole=True)


def _members(rows: object, read: Any) -> Iterator[Member]:
    for row in rows if isinstance(rows, list) else ():
        rank = _whole(row.get("rank")) if isinstance(row, dict) else None
        if rank is not None:
            status = row.get("status")
            yield read(rank, row, status if isinstance(status, dict) else {})


def _present(rank: int, row: Object, status: Object) -> Member:
    counts = row.get("collective_counts")
    counted = None
    if isinstance(counts, dict):
        counted = {
            OPS.get(name, name.lower()): number
            for name, value in counts.items()
            if (number := _whole(value)) is not None
        }
    init, late = _whole(status.get("init_state")) or 0, _whole(status.get("async_error")) or 0
    state = ""
    if init == _IN_PROGRESS:
        state = STARTING
    elif status.get("abort_flag") is True:
        state = ABORTED
    elif status.get("finalize_called") is True or status.get("destroy_flag") is True:
        state = LEAVING
    error = next((_RESULTS[code] for code in (init, late) if code in _RESULTS), "")
    return Member(
        rank=rank,
        peer=_peer(row),
        counts=counted,
        state=state,
        error=error,
        quote=_quote(row),
    )


def _gone(rank: int, row: Object, status: Object) -> Member:
    state = LEFT
    if status.get("considered_dead") is True:
        state = DEAD
    elif status.get("unresponsive") is True:
        state = UNRESPONSIVE
    return Member(rank=rank, peer=_peer(row), state=state, quote=_quote(row))


def _peer(row: Object) -> Peer:
    node, pid = row.get("host"), _whole(row.get("pid"))
    gpu = _whole(row.get("cuda_dev"))
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

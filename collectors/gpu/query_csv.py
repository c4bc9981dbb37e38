"""``nvidia-smi --query-gpu=… --format=csv`` and its sisters, with any columns and units.

The header names the columns, with or without units; the same file may hold several such
tables, one below the other. ``--query-compute-apps`` and ``--query-accounted-apps`` name the
processes, ``--query-remapped-rows`` and ``--query-retired-pages`` the health of the memory.
A table without a header is read only where its rows say what they are: a GPU's UUID, a pid,
a name and an amount of memory.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from whyhang.analyzer.facts import Fact, Gpu, GpuProcess, Who, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.fields import COLUMNS, Draft, column
from whyhang.collectors.gpu.lines import Counter, Line, Piece

_COLUMN = re.compile(r"\s*([a-z][\w.]*)\s*(?:\[([A-Za-z%]+)\])?\s*$")
_KNOWN = frozenset(COLUMNS) | {"timestamp", "pid", "process_name", "used_gpu_memory"}
_MORE = frozenset({"used_memory", "gpu_serial", "gpu_uuid", "count", "serial", "hostname", "host"})
_TELLING = re.compile(r"utilization\.|memory\.|power\.|clocks|ecc\.|retired_|remapped_|_uuid|pid")
_APP = re.compile(
    r"\s*(?P<uuid>(?:GPU|MIG)-[0-9a-fA-F][\w/-]+),\s*(?P<pid>\d+),\s*(?P<name>.*?),"
    r"\s*(?P<memory>\[?N/A\]?|\d+(?: MiB)?)\s*$"
)


def columns(text: str) -> tuple[tuple[str, str], ...] | None:
    """Read a header: (column, unit) each; None if this is none."""
    if "," not in text or not any(mark in text for mark in ("gpu", "uuid", "pid", "index")):
        return None
    found = [_COLUMN.match(cell) for cell in text.lower().split(",")]
    if not all(found):
        return None
    names = tuple((cell[1], cell[2] or "") for cell in found if cell)
    known = sum(name in _KNOWN or name in _MORE or _is_reason(name) for name, _ in names)
    telling = any(_TELLING.search(name) for name, _ in names)
    return names if telling and known >= 2 and 2 * known >= len(names) else None


def _is_reason(name: str) -> bool:
    return name.startswith(("clocks_event_reasons.", "clocks_throttle_reasons."))


class CsvReader:
    """Reads files that hold nothing but such tables, whatever their names."""

    name = "nvidia-smi --query as CSV"

    def sniff(self, document: Document) -> bool:
        """Look for a header in the first line that is not empty."""
        first = document.head[:8192].lstrip(b"\xef\xbb\xbf\r\n \t").partition(b"\n")[0]
        return columns(first.decode("utf-8", "replace").strip()) is not None

    def owns(self, document: Document) -> bool:
        """Say that no other reader need look at it."""
        return self.sniff(document)

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a fact for each row."""
        from whyhang.collectors.gpu.text import TextReader  # noqa: PLC0415 - it reads tables too

        yield from TextReader().read(document)


def parse(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read a table whose header stands at ``start``; give the line behind it and its facts."""
    names = columns(piece.lines[start].text)
    if names is None:
        return start + 1, []
    rows: list[tuple[Line, list[str]]] = []
    position = start + 1
    while position < len(piece.lines):
        line = piece.lines[position]
        told = line.text.replace("\0", "")  # the csv module of Python 3.10 raises on these
        cells = next(csv.reader([told], skipinitialspace=True), []) if told else []
        if len(cells) < len(names) or columns(line.text) is not None:
            break
        if len(cells) > len(names):  # a process name with commas in it
            cells = _rejoined(cells, names)
        rows.append((line, [cell.strip() for cell in cells]))
        position += 1
    if any(name == "pid" for name, _ in names):
        return position, _apps(piece, names, rows, counter)
    return position, [_row(piece, names, line, cells, counter) for line, cells in rows]


def _rejoined(cells: list[str], names: tuple[tuple[str, str], ...]) -> list[str]:
    """Put a name that was split at its commas together again."""
    at = next((n for n, (name, _) in enumerate(names) if name.endswith("name")), None)
    if at is None:
        return cells[: len(names)]
    more = len(cells) - len(names)
    return [*cells[:at], ", ".join(cells[at : at + more + 1]), *cells[at + more + 1 :]]


def _row(
    piece: Piece,
    names: tuple[tuple[str, str], ...],
    line: Line,
    cells: list[str],
    counter: Counter,
) -> Gpu:
    draft = Draft()
    taken_at, host = piece.taken_at, piece.host
    for (name, unit), cell in zip(names, cells, strict=True):
        if name == "timestamp":
            taken_at = values.moment(cell) if taken_at is None else taken_at
        elif name in {"hostname", "host"}:
            host = cell or host
        else:
            column(draft, name, cell, unit)
    tool = "nvidia-smi --query-gpu"
    gpu = draft.finish(Who(host=host), piece.source(line), tool, quote=line.text.strip()[:300])
    key = (host, "csv", gpu.uuid or gpu.bus or gpu.index)
    return replace(gpu, taken_at=taken_at, look=counter.next(key))


def _apps(
    piece: Piece,
    names: tuple[tuple[str, str], ...],
    rows: list[tuple[Line, list[str]]],
    counter: Counter,
) -> list[Gpu]:
    """Read one listing of processes: one fact for each GPU that has any."""
    found: dict[str, tuple[Line, Draft]] = {}
    for line, cells in rows:
        told = dict(zip((name for name, _ in names), cells, strict=True))
        pid = values.number(told.get("pid"))
        key = told.get("gpu_uuid") or told.get("gpu_bus_id") or told.get("gpu_name") or ""
        if pid is None or not key:
            continue
        _, draft = found.setdefault(key, (line, Draft()))
        draft.put("uuid", told.get("gpu_uuid"))
        draft.put("bus", told.get("gpu_bus_id"))
        memory = told.get("used_gpu_memory") or told.get("used_memory")
        add_process(draft, int(pid), told.get("process_name", ""), memory)
    return _finished(piece, found, counter)


def is_app(text: str) -> bool:
    """Tell whether a line is a row of ``--query-compute-apps`` without a header."""
    return text.lstrip().startswith(("GPU-", "MIG-")) and _APP.match(text) is not None


def parse_apps(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read rows of ``--query-compute-apps`` that have no header."""
    found: dict[str, tuple[Line, Draft]] = {}
    position = start
    while position < len(piece.lines):
        line = piece.lines[position]
        row = _APP.match(line.text)
        if row is None:
            break
        _, draft = found.setdefault(row["uuid"], (line, Draft(uuid=row["uuid"])))
        add_process(draft, int(row["pid"]), row["name"], row["memory"])
        position += 1
    return position, _finished(piece, found, counter)


def add_process(draft: Draft, pid: int, name: str, memory: str | None) -> None:
    """Add a process to what is read of a GPU."""
    draft.processes = draft.processes or []
    draft.processes.append(
        GpuProcess(pid=pid, name=(values.told(name) or "")[:200], memory=values.mebibytes(memory))
    )


def _finished(piece: Piece, found: dict[str, tuple[Line, Draft]], counter: Counter) -> list[Gpu]:
    look = counter.next((piece.host, "apps"))
    who = Who(host=piece.host)
    return [
        replace(
            draft.finish(who, piece.source(line), "nvidia-smi --query-compute-apps", line.text),
            look=look,
            taken_at=piece.taken_at,
        )
        for line, draft in found.values()
    ]

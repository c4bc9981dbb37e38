"""The table that plain ``nvidia-smi`` prints: drivers 361 to 610, with MIG and processes.

A GPU has two rows (three since driver 450, with the MIG mode). Names are cut with dots. The
process table names a GPU instance since 450; in a container it is empty whatever runs.
"""

from __future__ import annotations

import re

from whyhang.analyzer.facts import Gpu, GpuProcess, GpuSlice, Who, replace
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.gpu.lines import Counter, Line, Piece, time_before

HEAD = re.compile(
    r"\|\s*NVIDIA-SMI\s+(?P<smi>\d[\w.]*)\s+(?:(?:Driver|KMD) Version:\s*(?P<driver>[\w./]+))?"
    r"(?:\s+CUDA(?: UMD)? Version:\s*(?P<cuda>[\w./]+))?"
)
_FIRST = re.compile(
    r"\|\s*(?P<index>\d+)\s+(?P<name>\S.*?)\s+(?P<persistence>On|Off|N/A|ERR!|WDDM|TCC|MCDM)\s*"
    r"\|\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])"
    r"\s+(?P<display>\S+)?\s*\|\s*(?P<ecc>\S+)\s*\|"
)
_SECOND = re.compile(
    r"\|\s*(?P<fan>\d+%|N/A|ERR!)?\s*(?P<temp>\d+C|N/A|ERR!|Unknown Error)\s+"
    r"(?P<perf>P\d+|N/A|ERR!|Unknown Error)\s+(?P<power>[\d.]+W|N/A|ERR!|Unknown Error)\s*/\s*"
    r"(?P<limit>[\d.]+W|N/A|ERR!)\s*\|\s*(?P<used>[\d.]+[KMG]iB|N/A|ERR!)\s*/\s*"
    r"(?P<total>[\d.]+[KMG]iB|N/A|ERR!)\s*\|\s*(?P<busy>\d+%|N/A|ERR!)\s+(?P<mode>\S.*?)\s*\|"
)
_THIRD = re.compile(r"\|[^|]*\|[^|]*\|\s*(?P<mig>Enabled\*?|Disabled\*?|N/A)\s*\|")
_SLICE = re.compile(
    r"\|\s*(?P<gpu>\d+)\s+(?P<gi>\d+)\s+(?P<ci>\d+)\s+(?P<device>\d+)\s*\|"
    r"\s*(?P<used>[\d.]+[KMG]iB)\s*/"
)
_PROCESS = re.compile(
    r"\|\s*(?P<gpu>\d+)\s+(?:(?P<gi>\d+|N/A)\s+(?P<ci>\d+|N/A)\s+)?(?P<pid>\d+)\s+"
    r"(?P<type>C\+G|M\+C|[CGM])\s+(?P<name>.*?)\s+(?P<memory>\d+[KMG]iB|N/A)?\s*\|$"
)
_NONE = "No running processes found"
_MODES = {"E.": "Exclusive_Process", "E. Process": "Exclusive_Process", "E. Thread": "Exclusive"}
_TOOL = "nvidia-smi"
_FIELDS = {
    "temp": "temperature",
    "power": "power",
    "limit": "power_limit",
    "used": "memory_used",
    "total": "memory_total",
    "busy": "busy",
}


class _Row:
    """One GPU of the table while its rows are read."""

    def __init__(self, line: Line, draft: Draft) -> None:
        self.line = line
        self.draft = draft
        self.quote = line.text.strip()
        self.slices: list[GpuSlice] = []


def parse(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read the table whose header stands at ``start``; give the line behind it and its GPUs."""
    table = _Table(HEAD.search(piece.lines[start].text))
    position = start + 1
    while position < len(piece.lines) and table.take(piece.lines[position]):
        position += 1
    return position, _finished(piece, start, table.finished(), counter)


class _Table:
    """One table while it is read."""

    def __init__(self, head: re.Match[str] | None) -> None:
        self._head = head
        self._rows: dict[int, _Row] = {}
        self._row: _Row | None = None
        self._listed = False  # processes have been seen
        self._none = False  # it says that there are none

    def take(self, line: Line) -> bool:
        """Read a line; tell whether it was of the table."""
        text = line.text.strip()
        if text and text[0] not in "|+":
            return _is_torn(text)
        if HEAD.search(text):
            return False
        if (first := _FIRST.match(text)) is not None:
            self._row = self._rows[int(first["index"])] = _begun(line, first, self._head)
        elif not self._of_gpu(text):
            self._below(text)
        return True

    def _of_gpu(self, text: str) -> bool:
        """Take the second and third row of a GPU."""
        if self._row is None or self._listed:
            return False
        if (second := _SECOND.match(text)) is not None:
            _second(self._row, second)
        elif (third := _THIRD.match(text)) is not None:
            self._row.draft.put("mig", third["mig"].rstrip("*"))
        else:
            return False
        return True

    def _below(self, text: str) -> None:
        """Take a row of the tables of MIG devices and processes."""
        if _NONE in text:
            self._none = True
        elif (process := _PROCESS.match(text)) is not None:
            row = self._rows.get(int(process["gpu"]))
            if row is not None:
                self._listed = True
                _process(row, process)
        elif (part := _SLICE.match(text)) is not None and int(part["gpu"]) in self._rows:
            self._rows[int(part["gpu"])].slices.append(_slice(part))

    def finished(self) -> list[_Row]:
        """Give the rows; a GPU that is not among the processes listed has none."""
        if self._listed or self._none:
            for row in self._rows.values():
                row.draft.processes = row.draft.processes or []
        return list(self._rows.values())


def _is_torn(text: str) -> bool:
    """Tell a row that a narrow terminal or a chat wrapped; the table may go on below it."""
    return text.endswith("|") and text.count("|") < 4 and len(text) < 60


def _begun(line: Line, first: re.Match[str], head: re.Match[str] | None) -> _Row:
    draft = Draft(index=int(first["index"]), name=first["name"])
    draft.put("bus", first["bus"])
    if head is not None:
        draft.put("driver", head["driver"] or head["smi"])
        cuda = values.told(head["cuda"])
        if cuda is not None:
            draft.fields["cuda"] = cuda
    draft.put("ecc_uncorrected", first["ecc"], name="Volatile Uncorr. ECC")
    for name in ("name", "persistence"):
        if values.is_trouble(first[name]):
            draft.trouble(first[name], lost=values.is_lost(first[name]))
    return _Row(line, draft)


def _second(row: _Row, found: re.Match[str]) -> None:
    for name, field in _FIELDS.items():
        row.draft.put(field, found[name], name=field)
    row.draft.put("pstate", found["perf"], name="perf")
    mode = found["mode"].strip()
    row.draft.put("compute_mode", _MODES.get(mode, mode))
    row.quote = f"{row.quote} {' '.join(found[0].split())}"


def _slice(found: re.Match[str]) -> GpuSlice:
    return GpuSlice(
        device=int(found["device"]),
        instance=f"{found['gi']}/{found['ci']}",
        memory_used=values.mebibytes(found["used"]),
    )


def _process(row: _Row, found: re.Match[str]) -> None:
    row.draft.processes = row.draft.processes or []
    gi, ci = values.told(found["gi"]), values.told(found["ci"])
    row.draft.processes.append(
        GpuProcess(
            pid=int(found["pid"]),
            name=found["name"],
            memory=values.mebibytes(found["memory"]),
            slice=f"{gi}/{ci or 0}" if gi is not None else None,
            graphics=found["type"] == "G",
        )
    )


def _finished(piece: Piece, start: int, rows: list[_Row], counter: Counter) -> list[Gpu]:
    if not rows:
        return []
    taken_at, look = time_before(piece, start), counter.next((piece.host, _TOOL))
    who = Who(host=piece.host)
    found = []
    for row in rows:
        gpu = row.draft.finish(who, piece.source(row.line), _TOOL, " ".join(row.quote.split()))
        if row.slices:
            gpu = replace(gpu, slices=tuple(row.slices))
        found.append(replace(gpu, taken_at=taken_at, look=look))
    return found


_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu)\s?(?P<index>\d{1,3}(?=: ))?"
    r"(?:: | )?(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])?"
    r":?\s*(?P<why>[^|]*)"
)


def lost(piece: Piece, position: int, counter: Counter) -> list[Gpu]:
    """Read the line that nvidia-smi prints in the place of a GPU it cannot reach."""
    line = piece.lines[position]
    found = _LOST.search(line.text)
    if found is None or not (found["index"] or found["bus"]):
        return []
    draft = Draft(lost=True)
    draft.put("index", found["index"])
    draft.put("bus", found["bus"])
    draft.troubled.append(f"Unable to determine the device handle: {found['why'].strip()}"[:200])
    gpu = draft.finish(
        Who(host=piece.host), piece.source(line), _TOOL, " ".join(line.text.split())[:300]
    )
    look = counter.next((piece.host, "lost", gpu.index, gpu.bus))
    return [replace(gpu, taken_at=piece.taken_at, look=look)]

"""The table that plain ``nvidia-smi`` prints: drivers 361 to 610, with MIG and processes.

A GPU has two rows (three since driver 450, with the MIG mode). Names are cut with dots. The
process table names a GPU instance since 450; in a container it is empty whatever runs. Rows are
matched with single blanks, whatever the width of the columns.
"""

from collections.abc import Iterator

import regex

from whyhang.collectors import limits
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.prints import Lines

_TOOL = "nvidia-smi"
_HEAD = limits.compile(
    r"\| ?NVIDIA-SMI (?P<smi>\d[\w.]*+)(?: |$)(?:(?:Driver|KMD) Version: ?(?P<driver>[\w./]++) ?)?"
    r"(?:CUDA(?: UMD)? Version: ?(?P<cuda>[\w./]++))?"
)
_FIRST = limits.compile(
    r"\| ?(?P<index>\d{1,9}+) (?P<name>\S.*?) (?P<persistence>On|Off|N/A|ERR!|WDDM|TCC|MCDM) ?"
    r"\| ?(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])"
    r" [^\s|]*+ ?\| ?(?P<ecc>[^\s|]++) ?\|"
)
_SECOND = limits.compile(
    r"\| ?(?:\d++%|N/A|ERR!)? ?(?P<temperature>\d+C|N/A|ERR!|Unknown Error) "
    r"(?P<pstate>P\d+|N/A|ERR!|Unknown Error) (?P<power>[\d.]+W|N/A|ERR!|Unknown Error) ?/ ?"
    r"(?P<power_limit>[\d.]+W|N/A|ERR!) ?\| ?(?P<memory_used>[\d.]+[KMG]iB|N/A|ERR!) ?/ ?"
    r"(?P<memory_total>[\d.]+[KMG]iB|N/A|ERR!) ?"
    r"\| ?(?P<busy>\d+%|N/A|ERR!) (?P<compute_mode>[^\s|][^|]*+)\|"
)
_THIRD = limits.compile(r"\|[^|]*+\|[^|]*+\| ?(?P<mig>Enabled|Disabled|N/A)\*? ?\|")
_PROCESS = limits.compile(
    r"\| ?(?P<gpu>\d{1,9}+) (?:(?P<gi>\d++|N/A) (?P<ci>\d++|N/A) )?(?P<pid>\d++) "
    r"(?P<type>C\+G|M\+C|[CGM]) (?:(?P<name>\S.*?) )??(?P<memory>\d++[KMG]iB|N/A)? ?\|$"
)
_NONE = "No running processes found"
_MODES = {"E.": "Exclusive_Process", "E. Process": "Exclusive_Process", "E. Thread": "Exclusive"}


def parse(lines: Lines) -> Iterator[Draft]:
    """Read the table whose header is the next line; a GPU that its processes leave out has none."""
    head = _HEAD.search(lines.next.words) if "NVIDIA-SMI" in lines.next.text else None
    if head is None:
        return
    table = _Table(head, lines.time_above())
    lines.take()
    for line in lines:
        if not table.take(line.number, line.words):
            break
    for gpu in table.gpus.values():
        if table.lists_processes:
            gpu.lists_processes()
        yield gpu


class _Table:
    """One table while it is read."""

    def __init__(self, head: regex.Match[str], taken_at: float | None) -> None:
        self._head = head
        self._taken_at = taken_at
        self.gpus: dict[int, Draft] = {}
        self.lists_processes = False
        self._gpu: Draft | None = None  # whose rows are read

    def take(self, number: int, row: str) -> bool:
        """Read a row; return whether it was of the table."""
        if row and row[0] not in "|+":
            # A narrow terminal or a chat wraps rows; the table may go on below one.
            return row.endswith("|") and row.count("|") < 4 and len(row) < 60
        if _HEAD.search(row):
            return False
        if first := _FIRST.match(row):
            self._gpu = self.gpus[int(first["index"])] = self._begin(first, number, row)
        elif not self._of_gpu(row):
            self._below(row)
        return True

    def _begin(self, first: regex.Match[str], number: int, row: str) -> Draft:
        gpu = Draft(_TOOL, number, row, index=int(first["index"]), name=first["name"])
        gpu.taken_at = self._taken_at
        gpu.put("bus", first["bus"])
        gpu.put("driver", self._head["driver"] or self._head["smi"])
        gpu.put("cuda", self._head["cuda"])
        gpu.put("ecc_uncorrected", first["ecc"], name="Volatile Uncorr. ECC")
        for words in (first["name"], first["persistence"]):
            gpu.takes_trouble(words)
        return gpu

    def _of_gpu(self, row: str) -> bool:
        """Take the second and third row of a GPU; return whether it is one."""
        second = _SECOND.match(row)
        match = second or _THIRD.match(row)
        if match is None or self._gpu is None or self.lists_processes:
            return False
        for field, text in match.groupdict().items():
            self._gpu.put(field, _MODES.get(text.strip(), text.strip()), name=field)
        if second is not None:
            self._gpu.quote += f" {second[0]}"
        return True

    def _below(self, row: str) -> None:
        """Take a row of the table of processes, below that of MIG devices."""
        if _NONE in row:
            self.lists_processes = True
        elif (process := _PROCESS.match(row)) and (gpu := self.gpus.get(int(process["gpu"]))):
            self.lists_processes = True
            gpu.add_process(
                process["pid"],
                process["name"],
                process["memory"],
                instance=(process["gi"], process["ci"]),
                kind=process["type"],
            )


UNREACHABLE = "Unable to determine the device handle"
_LOST = limits.compile(
    UNREACHABLE + r" for (?:GPU|gpu) ?(?P<index>\d{1,3}(?=: ))?"
    r"(?:: | )?(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])?"
    r":?(?P<why>[^|]*+)"
)


def parse_lost(lines: Lines) -> Iterator[Draft]:
    """Read the line that nvidia-smi prints in the place of a GPU it cannot reach."""
    match = _LOST.search(lines.next.text)
    if match is not None and (match["index"] or match["bus"]):
        line = lines.take()
        gpu = Draft(_TOOL, line.number, line.words[:300])
        gpu.put("index", match["index"])
        gpu.put("bus", match["bus"])
        gpu.takes_trouble(f"{UNREACHABLE}: {match['why'].strip()}"[:200])
        yield gpu

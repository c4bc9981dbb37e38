"""``nvidia-smi -q`` as text, and ``--query-gpu`` and its sisters as CSV.

The text has labels and values, with sections by indentation; ``-d SECTION`` prints a part of
it. It also stands in the middle of nvidia-bug-report.log. The labels are those of drivers 384 to
610.

The header of a CSV table names the columns, with or without units, in any order; a file may
hold several tables, one below the other. ``--query-compute-apps`` and ``--query-accounted-apps``
name the processes, ``--query-remapped-rows`` and ``--query-retired-pages`` the health of the
memory. A table without a header is read only where its rows say what they are: a GPU's UUID, a
pid, a name and an amount of memory.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree as ET

from whyhang.analyzer.facts import whole
from whyhang.collectors import limits
from whyhang.collectors.gpu import values, xml
from whyhang.collectors.gpu.fields import FIELDS, REASON_SECTIONS, Draft
from whyhang.collectors.prints import Lines, PrintedLine

LOG = "==NVSMI LOG=="
_GPU = limits.compile(
    r"GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*+$"
)
_OF_PROCESS = {"process_id": "pid", "name": "process_name", "used_gpu_memory": "used_memory"}
_MAX_LINES = 5000
"""Of one GPU: what comes behind the last one in a bug report is of another tool."""


def parse_log(lines: Lines) -> Iterator[Draft]:
    """Read the log that begins with the next line, or what follows if its head is damaged."""
    has_head = LOG in lines.next.text
    is_gpu = _GPU.match(lines.next.text) and lines.behind.text[:1].isspace()
    if not has_head and not is_gpu:
        return
    head = _head(lines) if has_head else {}
    gpus: list[Draft] = []
    while match := _GPU.match(lines.next.text):
        gpu = Draft("nvidia-smi -q", lines.next.number, index=len(gpus))
        gpu.taken_at = values.moment(head.get("timestamp"))
        gpu.put("bus", match["bus"])
        lines.take()
        xml.take(_tree(lines, gpu), gpu, head)
        gpus.append(gpu)
    if not has_head or head.get("attached_gpus", str(len(gpus))) != str(len(gpus)):
        for gpu in gpus:  # with -i only some are printed, and their numbers are not told
            gpu.fields["index"] = None
    yield from gpus


def _head(lines: Lines) -> dict[str, str]:
    """Read what stands above the first GPU, up to what does not belong there."""
    lines.take()
    head: dict[str, str] = {}
    for line in lines:
        label, colon, value = line.text.partition(":")
        broken = line.text.strip() and not (colon and label.strip())
        if broken or LOG in line.text or _GPU.match(line.text):
            break
        head[_key(label)] = value.strip()
    return head


def _tree(lines: Lines, gpu: Draft) -> ET.Element:
    """Read the lines of one GPU as the XML would have them, and leave the next GPU's."""
    root = ET.Element("gpu")
    sections = [(-1, root)]  # those that are open, with their indentation
    for number, line in enumerate(lines):
        text = line.text
        if text.strip() and (not text[0].isspace() or number >= _MAX_LINES):
            break
        if not text.strip():
            continue
        label, colon, value = text.partition(":")
        key, value = _key(label), value.strip()
        if not colon:
            gpu.takes_trouble(label.strip())
        indent = len(text) - len(text.lstrip())
        while sections[-1][0] >= indent:
            sections.pop()
        parent = sections[-1][1]
        if len(sections) > 1 and sections[1][1].tag == "processes":
            parent = _process(sections[1][1], key)
            key = _OF_PROCESS.get(key, key)
        elif key == "processes" and value == "None":
            value = ""
        element = ET.SubElement(parent, key)
        element.text = value
        sections.append((indent, element))
    return root


def _process(processes: ET.Element, key: str) -> ET.Element:
    """Return the process that a line is of; some begin the next one."""
    begins = key in {"gpu_instance_id", "process_id"}
    if not len(processes) or (begins and processes[-1].find("pid") is not None):
        return ET.SubElement(processes, "process_info")
    return processes[-1]


def _key(label: str) -> str:
    return "_".join(label.lower().split())


_COLUMN = limits.compile(r"([a-z][\w.]*+)\s*+(?:\[([A-Za-z%]++)\])?$")
_KNOWN = frozenset(FIELDS) | {"timestamp", "pid", "process_name", "used_gpu_memory"}
_KNOWN |= {"used_memory", "gpu_serial", "gpu_uuid", "count", "serial"}
_TELLING = limits.compile(
    r"utilization\.|memory\.|power\.|clocks|ecc\.|retired_|remapped_|_uuid|pid"
)
_APPS = (("gpu_uuid", ""), ("pid", ""), ("process_name", ""), ("used_gpu_memory", ""))
_UUID = limits.compile(r"(?:GPU|MIG)-[0-9a-fA-F][\w/-]++")
_MEMORY = limits.compile(r"\[?N/A\]?|\d++(?: MiB)?")

Columns = Sequence[tuple[str, str]]
"""The columns of a table, each with its unit, "" where none is told."""


def columns(text: str) -> Columns | None:
    """Read a header; None if this is none."""
    if "," not in text or not any(mark in text for mark in ("gpu", "uuid", "pid", "index")):
        return None
    names: list[tuple[str, str]] = []
    for cell in text.lower().split(","):
        match = _COLUMN.match(cell.strip())
        if match is None:
            return None
        names.append((match[1], match[2] or ""))
    known = sum(name in _KNOWN or name.partition(".")[0] in REASON_SECTIONS for name, _ in names)
    telling = any(_TELLING.search(name) for name, _ in names)
    return names if telling and known >= 2 and 2 * known >= len(names) else None


def parse_csv(lines: Lines) -> Iterator[Draft]:
    """Read the table whose header, or first row of processes, is the next line."""
    own_header = columns(lines.next.text.strip())
    header = own_header or _APPS
    if own_header is not None:
        lines.take()
    elif not lines.next.text.lstrip().startswith(("GPU-", "MIG-")):
        return
    rows: list[tuple[PrintedLine, list[str]]] = []
    for line in lines:
        cells = _cells(line.text, header)
        if columns(line.text) or not cells or not (own_header or _is_app(*cells)):
            break
        rows.append((line, cells))
    if any(name == "pid" for name, _ in header):
        yield from _apps(header, rows)
    else:
        yield from (_gpu(header, line, cells) for line, cells in rows)


def _cells(text: str, header: Columns) -> list[str]:
    """Return the cells of a row; none where it has fewer than the header."""
    text = text.replace("\0", "")  # the csv module of Python 3.10 raises on these
    cells = next(csv.reader([text], skipinitialspace=True), [])
    more = len(cells) - len(header)
    if more < 0:
        return []
    # A process name with commas in it was split there.
    at = next((n for n, (name, _) in enumerate(header) if name.endswith("name")), None)
    if at is not None:
        cells[at : at + more + 1] = [", ".join(cells[at : at + more + 1])]
    return [cell.strip() for cell in cells[: len(header)]]


def _is_app(uuid: str, pid: str, _name: str, memory: str) -> bool:
    numbered = whole(pid) is not None
    return bool(_UUID.fullmatch(uuid) and numbered and _MEMORY.fullmatch(memory))


def _gpu(header: Columns, line: PrintedLine, cells: Sequence[str]) -> Draft:
    gpu = Draft("nvidia-smi --query-gpu", line.number, line.text.strip()[:300])
    for (name, unit), cell in zip(header, cells, strict=True):
        section, _, reason = name.partition(".")
        if name == "timestamp":
            gpu.taken_at = values.moment(cell)
        elif name in FIELDS:
            gpu.put(FIELDS[name], cell, name=name, unit=unit)
        elif section in REASON_SECTIONS:
            gpu.put_reason(reason, cell)
    return gpu


def _apps(header: Columns, rows: Sequence[tuple[PrintedLine, list[str]]]) -> Iterable[Draft]:
    """Read one listing of processes: one fact for each GPU that has any."""
    gpus: dict[str, Draft] = {}
    for line, cells in rows:
        row = dict(zip((name for name, _ in header), cells, strict=True))
        key = row.get("gpu_uuid") or row.get("gpu_bus_id") or row.get("gpu_name")
        if whole(row["pid"]) is None or not key:
            continue
        gpu = gpus.setdefault(key, Draft("nvidia-smi --query-compute-apps", line.number, line.text))
        gpu.put("uuid", row.get("gpu_uuid"))
        gpu.put("bus", row.get("gpu_bus_id"))
        memory = row.get("used_gpu_memory") or row.get("used_memory")
        gpu.add_process(row["pid"], row.get("process_name"), memory)
    return gpus.values()

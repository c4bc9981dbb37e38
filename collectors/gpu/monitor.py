"""Lists with a row for each GPU or process: dmon and pmon of nvidia-smi, rocm-smi.

The header of dmon and pmon names the columns, in any choice and order; it comes again every so
many rows. Units stand in a second line. A dash or N/A means that there is no value.
"""

from collections.abc import Iterator

from whyhang.analyzer.facts import whole
from whyhang.collectors import limits
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.fields import FIELDS, Draft
from whyhang.collectors.prints import Lines, PrintedLine

_ROCM_VALUE = limits.compile(r"GPU\[(?P<index>\d{1,9}+)\] ?: (?P<what>[^:]++): (?P<value>.+)$")
_WATTS = limits.compile(r"[\d.]++W")


def parse(lines: Lines) -> Iterator[Draft]:
    """Read the rows below a header of dmon or pmon, up to what is neither row nor header."""
    if not _header(lines.next.text.strip()):
        return
    gpus: list[Draft] = []
    sample: dict[int, Draft] = {}  # of pmon: the GPUs of one moment
    names: list[str] = []
    for line in lines:
        text = line.text.strip()
        names = _header(text) or names
        if not text or text.startswith("#"):
            continue
        cells = text.split(None, len(names) - 1)
        row = dict(zip(names, cells, strict=False))
        index = whole(row.get("gpu"))
        if index is None or len(row) < min(len(names), 3):
            break
        if "pid" not in names:
            gpus.append(_dmon(line, index, row))
            continue
        if sample and index < max(sample):
            sample = {}
        if index not in sample:
            sample[index] = Draft("nvidia-smi pmon", line.number, text, index=index)
            gpus.append(sample[index])
        _add_process(sample[index], row)
    yield from gpus


def _header(text: str) -> list[str]:
    """Return the names of the columns; none where this is no header."""
    words = text.lstrip("# ").split() if text.startswith("#") else []
    return words if "gpu" in words and not {"pid", "sm", "pwr"}.isdisjoint(words) else []


def _dmon(line: PrintedLine, index: int, row: dict[str, str]) -> Draft:
    gpu = Draft("nvidia-smi dmon", line.number, line.text.strip(), index=index)
    for name, cell in row.items():
        if field := FIELDS.get(f"dmon/{name}"):
            gpu.put(field, cell, name=name)
    date = row.get("Date", "")  # of -o DT: 20260701 13:06:53
    if len(date) == 8:
        gpu.taken_at = values.moment(f"{date[:4]}-{date[4:6]}-{date[6:]} {row.get('Time', '')}")
    return gpu


def _add_process(gpu: Draft, row: dict[str, str]) -> None:
    name = row.get("command") or row.get("name") or ""
    gpu.add_process(row.get("pid"), name, row.get("fb"), kind=row.get("type"))
    busy = values.number(row.get("sm"))
    if busy is not None and whole(row.get("pid")) is not None:
        gpu.fields["busy"] = max(busy, gpu.fields.get("busy") or 0)


def parse_rocm(lines: Lines) -> Iterator[Draft]:
    """Read the table of rocm-smi."""
    words = lines.next.text.split()
    if words[0] not in {"GPU", "Device"} or words[-1] != "GPU%":
        return
    lines.take()
    begun = False
    for line in lines:
        words = line.text.split()
        index = whole(words[0]) if words else None
        if index is not None and words[-1].endswith("%"):
            gpu = Draft("rocm-smi", line.number, line.words, index=index)
            gpu.put("busy", words[-1])
            gpu.put("power", next(filter(_WATTS.fullmatch, words), None))
            yield gpu
            begun = True
        elif begun and words:
            break


def parse_rocm_values(lines: Lines) -> Iterator[Draft]:
    """Read the list of values that rocm-smi --showuse and others print."""
    if not lines.next.words.startswith("GPU["):
        return
    gpus: dict[int, Draft] = {}
    for line in lines:
        row = _ROCM_VALUE.match(line.words)
        if row is not None:
            index, what = int(row["index"]), row["what"].strip()
            gpu = gpus.setdefault(
                index, Draft("rocm-smi --show", line.number, line.text.strip(), index=index)
            )
            if what == "Unique ID":
                gpu.fields["uuid"] = f"ROCm {row['value']}"
            elif field := FIELDS.get(f"rocm/{what}"):
                gpu.put(field, row["value"])
        elif line.words and not line.words.startswith(("=", "GPU[")):
            break
    yield from (gpu for gpu in gpus.values() if gpu.fields.keys() & {"busy", "bus"})

"""Lists with a row for each GPU or process: dmon of nvidia-smi and dcgmi, pmon, gpustat, rocm-smi.

The header of dmon and pmon names the columns, in any choice and order; it comes again every so
many rows. Units stand in a second line. A dash or N/A means that there is no value.
"""

from whyhang.collectors import limits
from whyhang.collectors.gpu import table, values
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.prints import Line, Lines

# nvidia-smi dmon -s pucvmet, as its manual names them ("sm" is the time with a kernel running), and
# the short names of dcgmi (dcgm_fields.cpp).
_DMON = {
    "pwr": "power",
    "gtemp": "temperature",
    "temp": "temperature",
    "sm": "busy",
    "mem": "memory_busy",
    "mclk": "memory_clock",
    "pclk": "sm_clock",
    "fb": "memory_used",
    "dbecc": "ecc_uncorrected",
    "sbecc": "ecc_corrected",
    "GPUTL": "busy",
    "MCUTL": "memory_busy",
    "POWER": "power",
    "TMPTR": "temperature",
    "SMCLK": "sm_clock",
    "MMCLK": "memory_clock",
    "FBUSD": "memory_used",
    "EDVDV": "ecc_uncorrected",
    "ESVDV": "ecc_corrected",
    "EDADV": "ecc_ever",
}
_OTHER_ENTITIES = frozenset({"id", "gpu-i", "gpu-ci", "switch", "link", "cpu"})  # of dcgmi
_GPUSTAT = limits.compile(
    r"\[(?P<index>\d{1,9}+)\] (?P<name>[^|]+?) ?\| ?(?P<temperature>\d++).C, ?"
    r"(?P<busy>\d++|\?++) %(?:, ?(?P<power>\d++)(?: / (?P<power_limit>\d++))? W)? ?"
    r"\| ?(?P<memory_used>\d++) / (?P<memory_total>\d++) MB(?: ?\|(?P<users>.*))?$"
)
_GPUSTAT_FIELDS = ("name", *table.STATE_FIELDS)
_GPUSTAT_USER = limits.compile(
    r"(?<![^\s/()])(?P<name>[^\s/()]*+)/(?P<pid>\d++)\((?P<memory>\d++|\?++)M\)"
)
_ROCM_VALUE = limits.compile(r"GPU\[(?P<index>\d{1,9}+)\] ?: (?P<what>[^:]++): (?P<value>.+)$")
_ROCM_FIELDS = {
    "GPU use (%)": "busy",
    "PCI Bus": "bus",
    "Card series": "name",
    "Card Series": "name",
    "Average Graphics Package Power (W)": "power",
    "Current Socket Graphics Package Power (W)": "power",
}
_WATTS = limits.compile(r"[\d.]++W")


def parse(lines: Lines) -> list[Draft]:
    """Read the rows below a header of dmon or pmon, up to what is neither row nor header."""
    if not _header(lines.next.text.strip()):
        return []
    gpus: list[Draft] = []
    sample: dict[int, Draft] = {}  # of pmon: the GPUs of one moment
    names: list[str] = []
    for line in lines:
        text = line.text.strip()
        names = _header(text) or names
        entity = text.partition(" ")[0].lower()
        if not text or text.startswith("#") or entity in _OTHER_ENTITIES:
            continue
        cells = text.removeprefix("GPU ").split(None, len(names) - 1)
        row = dict(zip(names, cells, strict=False))
        index = values.integer(row.get("gpu"))
        if index is None or len(row) < min(len(names), 3):
            break
        if "pid" not in names:
            gpus.append(_dmon(line, index, row, "dcgmi" if entity == "gpu" else "nvidia-smi"))
            continue
        if sample and index < max(sample):
            sample = {}
        if index not in sample:
            sample[index] = Draft("nvidia-smi pmon", line.number, text, index=index)
            gpus.append(sample[index])
        _add_process(sample[index], row)
    return gpus


def _header(text: str) -> list[str]:
    """Return the names of the columns; none where this is no header."""
    words = text.lstrip("# ").split() if text.startswith("#") else []
    if words[:1] == ["Entity"] and len(words) > 1:
        return ["gpu", *words[1:]]
    return words if "gpu" in words and not {"pid", "sm", "pwr"}.isdisjoint(words) else []


def _dmon(line: Line, index: int, row: dict[str, str], program: str) -> Draft:
    gpu = Draft(f"{program} dmon", line.number, line.text.strip(), index=index)
    for name, cell in row.items():
        if name in _DMON:
            gpu.put(_DMON[name], cell, name=name)
    date = row.get("Date", "")  # of -o DT: 20260701 13:06:53
    if len(date) == 8:
        gpu.taken_at = values.moment(f"{date[:4]}-{date[4:6]}-{date[6:]} {row.get('Time', '')}")
    return gpu


def _add_process(gpu: Draft, row: dict[str, str]) -> None:
    name = row.get("command") or row.get("name") or ""
    gpu.add_process(row.get("pid"), name, row.get("fb"), kind=row.get("type"))
    busy = values.number(row.get("sm"))
    if busy is not None and values.integer(row.get("pid")) is not None:
        gpu.fields["busy"] = max(busy, gpu.fields.get("busy") or 0)


def parse_gpustat(lines: Lines) -> list[Draft]:
    """Read gpustat: "[0] Tesla P100 | 48'C, 55 % | 15757 / 16280 MB | user:python/123(10M)"."""
    if not _GPUSTAT.match(lines.next.words):
        return []
    gpus: list[Draft] = []
    taken_at = lines.time_above()
    for line in lines:
        row = _GPUSTAT.match(line.words)
        if row is None:
            break
        gpu = Draft("gpustat", line.number, line.text.strip(), index=int(row["index"]))
        gpu.taken_at = taken_at
        for field in _GPUSTAT_FIELDS:
            gpu.put(field, row[field])
        for user in _GPUSTAT_USER.finditer(row["users"] or ""):
            gpu.add_process(user["pid"], user["name"].rpartition(":")[2], user["memory"])
        gpus.append(gpu)
    return gpus


def parse_rocm(lines: Lines) -> list[Draft]:
    """Read the table of rocm-smi."""
    words = lines.next.text.split()
    if words[0] not in {"GPU", "Device"} or words[-1] != "GPU%":
        return []
    lines.take()
    gpus: list[Draft] = []
    for line in lines:
        words = line.text.split()
        index = values.integer(words[0]) if words else None
        if index is not None and words[-1].endswith("%"):
            gpu = Draft("rocm-smi", line.number, line.words, index=index)
            gpu.put("busy", words[-1])
            gpu.put("power", next(filter(_WATTS.fullmatch, words), None))
            gpus.append(gpu)
        elif gpus and words:
            break
    return gpus


def parse_rocm_values(lines: Lines) -> list[Draft]:
    """Read the list of values that rocm-smi --showuse and others print."""
    gpus: dict[int, Draft] = {}
    if not lines.next.words.startswith("GPU["):
        return []
    for line in lines:
        row = _ROCM_VALUE.match(line.words)
        if row is not None:
            index, what = int(row["index"]), row["what"].strip()
            gpu = gpus.setdefault(
                index, Draft("rocm-smi --show", line.number, line.text.strip(), index=index)
            )
            if what == "Unique ID":
                gpu.fields["uuid"] = f"ROCm {row['value']}"
            elif what in _ROCM_FIELDS:
                gpu.put(_ROCM_FIELDS[what], row["value"])
        elif line.words and not line.words.startswith(("=", "GPU[")):
            break
    return [gpu for gpu in gpus.values() if not gpu.fields.keys().isdisjoint({"busy", "bus"})]

"""NVLinks, topology and failed tests: nvidia-smi -L, nvlink, topo -m; dcgmi diag."""

import re
from collections.abc import Iterator

import regex

from whyhang.analyzer.facts import GpuSlice, whole
from whyhang.collectors import limits
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.prints import Lines

_GPU = limits.compile(r"GPU (?P<index>\d{1,9}+): (?P<name>.+?) \(UUID: (?P<uuid>GPU-[\w-]++)\)$")
_BARE = limits.compile(r"GPU (?P<index>\d{1,9}+): (?P<name>[A-Za-z][\w .-]*+)$")
_STATE = limits.compile(r"Link (?P<link>\d{1,9}+): (?P<state><inactive>|[\d.]+ GB/s)$")
_ERRORS = limits.compile(
    r"Link (?P<link>\d{1,9}+): (?P<what>[A-Za-z][\w ()/.-]*?)(?: Lane \d++)?: "
    r"(?P<count>\d{1,18}+)$"
)
# Of NVLink 5 there are counters of ordinary events beside those of errors.
_COUNTED = limits.compile(
    r"replay|recovery|crc|malformed|overrun|rx errors|rx remote|local link integrity"
    r"|link recovery failed|failed events",
    re.IGNORECASE,
)
_NO_ERROR = limits.compile(r"successful|fec|effective|symbol ber|good", re.IGNORECASE)
_MIG = limits.compile(r"MIG .*?Device (?P<device>\d{1,9}+): \(UUID: (?P<uuid>MIG-[\w/-]++)\)")
_ALL_INACTIVE = "all links are inActive"
_GPU_NAME = limits.compile(r"GPU(\d{1,9}+)")
_CELL = limits.compile(r"X|SYS|NODE|PHB|PXB|PIX|PSB|NV\d++|N/A")


def parse(lines: Lines) -> Iterator[Draft]:
    """Read the headings of ``-L``, ``nvlink -s`` and ``nvlink -e``, with the links below each."""
    while match := _heading(lines):
        line = lines.take()
        gpu = Draft("nvidia-smi -L", line.number, line.words, index=int(match["index"]))
        gpu.fields |= {"name": match["name"], "uuid": match.groupdict().get("uuid")}
        for below in lines:
            if not _below(gpu, below.words):
                break
        if gpu.links:
            errors = any(link.errors is not None for link in gpu.links.values())
            gpu.tool = f"nvidia-smi nvlink -{'e' if errors else 's'}"
        yield gpu


def _heading(lines: Lines) -> regex.Match[str] | None:
    if "GPU " not in lines.next.text:
        return None
    if "(UUID: GPU-" in lines.next.text:
        return _GPU.match(lines.next.words)
    # Newer drivers and -i leave the UUID out; then the links below tell what it is.
    return _BARE.match(lines.next.words) if lines.behind.words.startswith("Link ") else None


def _below(gpu: Draft, words: str) -> bool:
    """Take a line below a heading; return whether it belongs there."""
    bad = False
    if state := _STATE.match(words):
        active = state["state"] != "<inactive>"
        gpu.put_link(int(state["link"]), active=active)
        bad = not active
    elif row := _ERRORS.match(words):
        is_error = _COUNTED.search(row["what"]) and not _NO_ERROR.search(row["what"])
        gpu.put_link(int(row["link"]), errors=int(row["count"]) if is_error else None)
        bad = int(row["count"]) > 0
    elif part := _MIG.match(words):
        gpu.slices.append(GpuSlice(uuid=part["uuid"]))
    else:
        return not words or words.startswith("Link ") or _ALL_INACTIVE in words
    if bad and len(gpu.quote) < 200:
        gpu.quote += f" {words}"
    return True


def parse_topology(lines: Lines) -> Iterator[Draft]:
    """Read the matrix: for each GPU how it reaches the others (NV18, SYS, PIX, …)."""
    header = lines.next.text
    words = header.split() if header.lstrip().startswith("GPU") else []
    others = "CPU Affinity" in header or "NUMA Affinity" in header
    count = sum(_GPU_NAME.fullmatch(word) is not None for word in words)
    if count < (1 if others else max(2, len(words))):
        return
    lines.take()
    for line in lines:
        name, *cells = line.text.split() or [""]
        match, cells = _GPU_NAME.fullmatch(name), cells[:count]
        if name and (not match or len(cells) < count or not all(map(_CELL.fullmatch, {*cells}))):
            break
        if match:
            gpu = Draft("nvidia-smi topo -m", line.number, line.words, index=int(match[1]))
            gpu.fields["peers"] = tuple(cells)
            yield gpu


_ROW = limits.compile(r"\|(?P<test>[^|]*+)\|(?P<result>[^|]*+)\|$")
_FAILED = limits.compile(r"Fail(?:ure)?\b(?: - GPUs?: (?P<gpus>[\d, ]++))?")
_FAILED_GPU = limits.compile(r"GPU(?P<gpu>\d{1,9}+): Fail")
_ERROR = limits.compile(r"GPU (?P<gpu>\d{1,9}+) ")


def parse_diag(lines: Lines) -> Iterator[Draft]:
    """Read the failed tests of diag, of those GPUs that it names."""
    header = lines.next.text
    if "Diagnostic" not in header or "Result" not in header:
        return
    lines.take()
    gpus: dict[int, Draft] = {}
    failed: dict[int, dict[str, None]] = {}
    test = ""
    for line in lines:
        if line.words[:1] not in {"", "|", "+"}:
            break
        row = _ROW.match(line.words)
        if row is None:
            continue
        test = row["test"].strip() or test
        for index in _failed(test, row["result"].strip()):
            gpus.setdefault(index, Draft("dcgmi diag", line.number, line.words, index=index))
            failed.setdefault(index, {})[test] = None
    for index, tests in sorted(failed.items()):
        gpus[index].trouble(f"dcgmi diag failed: {', '.join(tests)}")
        yield gpus[index]


def _failed(test: str, result: str) -> list[int]:
    """Return the GPUs for which a test failed."""
    error = _ERROR.match(result) if test == "Error" else None
    if one := error or _FAILED_GPU.search(result):
        return [int(one["gpu"])]
    many = _FAILED.match(result)
    listed = ((many and many["gpus"]) or "").split(",")
    return [index for word in listed if (index := whole(word)) is not None]

"""NVLinks and the topology: nvidia-smi nvlink -s and -e, nvidia-smi -L, topo -m."""

from __future__ import annotations

import re

import regex

from whyhang.analyzer.facts import GpuSlice
from whyhang.collectors import limits
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.gpu.lines import Lines

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


def parse(lines: Lines) -> list[Draft] | None:
    """Read the headings of ``-L``, ``nvlink -s`` and ``nvlink -e``, with the links below each."""
    gpus: list[Draft] = []
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
        gpus.append(gpu)
    return gpus or None


def _heading(lines: Lines) -> regex.Match[str] | None:
    if "GPU " not in lines.next.text:
        return None
    if "(UUID: GPU-" in lines.next.text:
        return _GPU.match(lines.next.words)
    # Newer drivers and -i leave the UUID out; then the links below tell what it is.
    return _BARE.match(lines.next.words) if lines.behind.words.startswith("Link ") else None


def _below(gpu: Draft, words: str) -> bool:
    """Take a line below a heading; return whether it belongs there."""
    if state := _STATE.match(words):
        active = state["state"] != "<inactive>"
        gpu.put_link(int(state["link"]), active=active)
        _quote(gpu, words, bad=not active)
    elif row := _ERRORS.match(words):
        is_error = _COUNTED.search(row["what"]) and not _NO_ERROR.search(row["what"])
        gpu.put_link(int(row["link"]), errors=int(row["count"]) if is_error else None)
        _quote(gpu, words, bad=int(row["count"]) > 0)
    elif part := _MIG.match(words):
        gpu.slices.append(GpuSlice(device=int(part["device"]), uuid=part["uuid"]))
    else:
        return not words or words.startswith("Link ") or _ALL_INACTIVE in words
    return True


def _quote(gpu: Draft, words: str, *, bad: bool) -> None:
    """Add to the quote the first lines that tell of trouble."""
    if bad and len(gpu.quote) < 200:
        gpu.quote += f" {words}"


def parse_topology(lines: Lines) -> list[Draft] | None:
    """Read the matrix: for each GPU how it reaches the others (NV18, SYS, PIX, …)."""
    header = lines.next.text
    count = sum(_GPU_NAME.fullmatch(word) is not None for word in header.split())
    if not header.lstrip().startswith("GPU") or not count:
        return None
    others = "CPU Affinity" in header or "NUMA Affinity" in header
    if not others and (count < 2 or count < len(header.split())):
        return None
    lines.take()
    gpus: list[Draft] = []
    for line in lines:
        name, *cells = line.text.split() or [""]
        match, cells = _GPU_NAME.fullmatch(name), cells[:count]
        if name and (not match or len(cells) < count or not all(map(_CELL.fullmatch, cells))):
            break
        if match:
            gpu = Draft("nvidia-smi topo -m", line.number, line.words, index=int(match[1]))
            gpu.fields["peers"] = tuple(cells)
            gpus.append(gpu)
    return gpus

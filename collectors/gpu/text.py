"""Text in which GPU tools have printed something: their output alone, or among other lines.

One pass over the lines; where one of the known beginnings stands, its reader takes over and
gives the line behind what it read. A file may hold the output of several tools, several
samples and several hosts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from whyhang.analyzer.facts import Fact, Gpu
from whyhang.analyzer.reading import Document
from whyhang.collectors.files.marks import Marks
from whyhang.collectors.gpu import links, monitor, others, query_csv, query_text, table
from whyhang.collectors.gpu.lines import Counter, Piece, pieces

MAX_BYTES = 32 << 20
_MARKS = Marks(
    *(b"NVIDIA-SMI ", b"==NVSMI LOG==", b"Unable to determine the device handle for"),
    *(b"(UUID: GPU-", b"# gpu ", b"#gpu ", b"#Entity", b"# Entity", b"gpuId ", b"CPU Affinity"),
    *(b"Time gpu", b"Time        gpu", b"| Diagnostic  ", b"GPU%", b"GPU use (%)", b"\tGPU1"),
    *(b"NVLINK Error Counts", b" Link 0: ", b"'C, ", b"\xb0C, ", b"nvidia-bug-report"),
    *(b"utilization.gpu", b"gpu_uuid", b"memory.used", b"\nGPU-"),
)
"""One of these is in every text that is read here."""

MAX_OWNED = 128 << 10
# What stands around matrices and tables: a date, NICs, the legend.
_BESIDE = re.compile(
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}$|NIC\d+\s|Legend:|NIC Legend:"
    r"|(?:X|SYS|NODE|PHB|PXB|PIX|PSB|NV#)\s+=|NvSwitches:|GPUs:|Key:"
)

_Parser: TypeAlias = Callable[[Piece, int, Counter], tuple[int, list[Gpu]]]


class TextReader:
    """Reads what nvidia-smi, dcgmi and rocm-smi print for people."""

    name = "output of GPU tools"

    def sniff(self, document: Document) -> bool:
        """Look for a telling word."""
        head = document.head
        if b"<nvidia_smi_log" in head[:4096]:
            return False
        return bool(_MARKS.within(head)) or head.startswith((b"GPU-", b"MIG-"))

    def owns(self, document: Document) -> bool:
        """Say that no other reader need look at a short file that these tools alone wrote."""
        if document.size > MAX_OWNED or document.size > len(document.head):
            return False
        text = document.head.decode("utf-8", "replace")
        return all(_all_read(piece) for piece in pieces(document, text))

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a fact for each GPU and sample."""
        with document.open() as stream:
            text = stream.read(MAX_BYTES).decode("utf-8", "replace")
        counter = Counter(document)
        for piece in pieces(document, text):
            yield from _facts(piece, counter)


def _all_read(piece: Piece) -> bool:
    """Tell whether every line is of a tool's output; failures are for other readers, too."""
    counter = Counter(piece.document)
    position, found = 0, 0
    while position < len(piece.lines):
        text = piece.lines[position].text.strip()
        parser = _parser(piece, position) if text else None
        if parser is not None:
            behind, gpus = parser(piece, position, counter)
            found += len(gpus)
            position = max(behind, position + 1)
            continue
        if text and text[0] not in "|+-=" and not _BESIDE.match(text):
            return False
        position += 1
    return found > 0


def _facts(piece: Piece, counter: Counter) -> Iterator[Gpu]:
    position = 0
    while position < len(piece.lines):
        text = piece.lines[position].text
        if "Unable to determine the device handle" in text:
            yield from table.lost(piece, position, counter)
            position += 1
            continue
        parser = _parser(piece, position) if text else None
        if parser is None:
            position += 1
            continue
        behind, found = parser(piece, position, counter)
        yield from found
        position = max(behind, position + 1)


def _parser(piece: Piece, position: int) -> _Parser | None:  # noqa: C901 - one case per beginning
    """Give the reader of what begins with this line."""
    text = piece.lines[position].text
    first = text[0]
    if first == "|":
        if "NVIDIA-SMI" in text and table.HEAD.search(text):
            return table.parse
        if links.is_counts(text):
            return links.parse_counts
        return others.parse_diag if others.is_diag(text) else None
    if first == "[":
        return others.parse_gpustat if others.is_gpustat(text.strip()) else None
    if first == "#":
        if monitor.is_dmon(text):
            return monitor.parse_dmon
        return monitor.parse_dcgm if monitor.is_dcgm(text) else None
    if first == "=":
        return query_text.parse if query_text.START in text else None
    stripped = text.strip()
    if stripped.startswith("GPU"):
        if links.is_gpu(text, links.after(piece, position)):
            return links.parse_links
        if others.is_rocm(stripped):
            return others.parse_rocm
        if links.is_topology(text):
            return links.parse_topology
    elif stripped.startswith("Device") and others.is_rocm(stripped):
        return others.parse_rocm
    elif stripped.startswith("gpuId ") and links.is_dcgm(text):
        return links.parse_dcgm
    elif stripped.startswith("|") and "NVIDIA-SMI" in stripped and table.HEAD.search(stripped):
        return table.parse
    if query_csv.is_app(text):
        return query_csv.parse_apps
    if "," in text and query_csv.columns(stripped) is not None:
        return query_csv.parse
    return None

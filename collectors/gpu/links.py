"""NVLinks and the topology: nvidia-smi nvlink -s and -e, nvidia-smi -L, topo -m, dcgmi nvlink."""

from __future__ import annotations

import re

from whyhang.analyzer.facts import Gpu, GpuSlice, NvLink, Who, replace
from whyhang.collectors.gpu.lines import Counter, Line, Piece

_GPU = re.compile(r"\s*GPU (?P<index>\d+): (?P<name>.+?) \(UUID: (?P<uuid>GPU-[\w-]+)\)\s*$")
# Newer drivers and -i leave the UUID out; then the links below tell what it is.
_BARE = re.compile(r"\s*GPU (?P<index>\d+): (?P<name>[A-Za-z][\w .-]*?)\s*$")
_SPEED = re.compile(r"\s*Link (?P<link>\d+): +(?P<state><inactive>|[\d.]+ GB/s)\s*$")
_ERRORS = re.compile(
    r"\s*Link (?P<link>\d+): +(?P<what>[A-Za-z][\w ()/.-]*?)(?: Lane \d+)?: +(?P<count>\d+)\s*$"
)
# Of NVLink 5 there are counters of ordinary events beside those of errors.
_COUNTED = re.compile(
    r"replay|recovery|crc|malformed|overrun|rx errors|rx remote|local link integrity"
    r"|link recovery failed|failed events",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(r"successful|fec|effective|symbol ber|good", re.IGNORECASE)
_MIG = re.compile(r"\s+MIG .*?Device\s+(?P<device>\d+): \(UUID: (?P<uuid>MIG-[\w/-]+)\)")
_ALL_INACTIVE = "all links are inActive"
_DCGM_GPU = re.compile(r"\s*gpuId (?P<index>\d+):\s*$")
_DCGM_LINKS = re.compile(r"\s*(?:[UDX_]\s+){1,35}[UDX_]\s*$|\s*[UDX_]\s*$")
_TOPOLOGY = re.compile(
    r"\s*(?:GPU\d+\s+)+(?:\S+\s+)*?(?:CPU Affinity|NUMA Affinity)|\s*GPU\d+(?:\s+GPU\d+)+\s*$"
)
_COUNTS_HEAD = re.compile(r"\|\s*GPU (?P<index>\d+)\s*\|")
_COUNTS_LINK = re.compile(r"\|\s*Link (?P<link>\d+)\s*\|")
_COUNTS_ROW = re.compile(r"\|\s*-> (?P<what>[A-Za-z ]+?)\s*\|\s*(?P<count>\d+)\s*\|")
_ROW = re.compile(r"\s*GPU(?P<index>\d+)\s+(?P<cells>.*)$")
_CELL = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|PSB|NV\d+|N/A")


def is_gpu(text: str, after: str) -> bool:
    """Tell whether a line, and the one behind it, head a GPU in ``-L`` or ``nvlink``."""
    return _heading(text, after) is not None


def _heading(text: str, after: str) -> re.Match[str] | None:
    if "(UUID: GPU-" in text:
        return _GPU.match(text)
    return _BARE.match(text) if after.lstrip().startswith("Link ") else None


def parse_links(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read the headings of ``-L``, ``nvlink -s`` and ``nvlink -e``, with the links below each."""
    found: list[Gpu] = []
    position = start
    kinds: set[str] = set()
    while position < len(piece.lines):
        head = _heading(piece.lines[position].text, after(piece, position))
        if head is None:
            break
        line = piece.lines[position]
        position += 1
        links: dict[int, NvLink] = {}
        slices: list[GpuSlice] = []
        quote = line.text.strip()
        while position < len(piece.lines):
            text = piece.lines[position].text
            if _link(links, text):
                quote = _telling(quote, text)
            elif (part := _MIG.match(text)) is not None:
                slices.append(GpuSlice(device=int(part["device"]), uuid=part["uuid"]))
            elif text.strip() and _ALL_INACTIVE not in text:
                break
            position += 1
        kinds.add("nvlink" if links else "-L")
        found.append(
            Gpu(
                who=Who(host=piece.host),
                source=piece.source(line),
                tool="nvidia-smi nvlink" if links else "nvidia-smi -L",
                taken_at=piece.taken_at,
                index=int(head["index"]),
                name=head["name"],
                uuid=head.groupdict().get("uuid"),
                slices=tuple(slices),
                links=tuple(links.values()) or None,
                quote=quote,
            )
        )
    errors = any(link.errors is not None for gpu in found for link in gpu.links or ())
    look = counter.next((piece.host, *sorted(kinds), errors))
    return max(position, start + 1), [replace(gpu, look=look) for gpu in found]


def after(piece: Piece, position: int) -> str:
    """Give the line behind a position, or nothing."""
    return piece.lines[position + 1].text if position + 1 < len(piece.lines) else ""


def _telling(quote: str, text: str) -> str:
    """Add to a quote the first lines that tell of trouble."""
    bad = "<inactive>" in text or (_ERRORS.match(text) and not text.rstrip().endswith(": 0"))
    return f"{quote} {' '.join(text.split())}" if bad and len(quote) < 200 else quote


def _link(links: dict[int, NvLink], text: str) -> bool:
    """Take a line about one link; tell whether it is one."""
    if (speed := _SPEED.match(text)) is not None:
        number = int(speed["link"])
        known = links.get(number, NvLink(number=number))
        links[number] = replace(known, active=speed["state"] != "<inactive>")
        return True
    found = _ERRORS.match(text)
    if found is None:
        return text.lstrip().startswith("Link ")
    number = int(found["link"])
    known = links.get(number, NvLink(number=number))
    if _COUNTED.search(found["what"]) and not _NO_ERROR.search(found["what"]):
        known = replace(known, errors=(known.errors or 0) + int(found["count"]))
    links[number] = known
    return True


def is_dcgm(text: str) -> bool:
    """Tell whether a line begins the links of a GPU in ``dcgmi nvlink -s``."""
    return text.lstrip().startswith("gpuId ") and _DCGM_GPU.match(text) is not None


def parse_dcgm(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read "gpuId 0:" and the letters below it: U up, D down, X disabled, _ not there."""
    head = _DCGM_GPU.match(piece.lines[start].text)
    if head is None or start + 1 >= len(piece.lines):
        return start + 1, []
    row = piece.lines[start + 1]
    if _DCGM_LINKS.match(row.text) is None:
        return start + 1, []
    links = tuple(
        NvLink(number=number, active=letter == "U")
        for number, letter in enumerate(row.text.split())
        if letter in "UD"
    )
    index = int(head["index"])
    return start + 2, [
        Gpu(
            who=Who(host=piece.host),
            source=piece.source(row),
            tool="dcgmi nvlink",
            look=counter.next((piece.host, "dcgmi nvlink", index)),
            taken_at=piece.taken_at,
            index=index,
            links=links,
            quote=f"gpuId {index}: {' '.join(row.text.split())}",
        )
    ]


def is_counts(text: str) -> bool:
    """Tell whether a line begins the table of ``dcgmi nvlink -e``."""
    return text.startswith("|") and "NVLINK Error Counts" in text


def parse_counts(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read the error counters of the links of one GPU, as dcgmi prints them."""
    index: int | None = None
    links: dict[int, NvLink] = {}
    number, position = 0, start + 1
    bad: list[str] = []
    while position < len(piece.lines):
        text = piece.lines[position].text.strip()
        if (head := _COUNTS_HEAD.match(text)) is not None:
            if index is not None:
                break
            index = int(head["index"])
        elif (link := _COUNTS_LINK.match(text)) is not None:
            number = int(link["link"])
        elif (row := _COUNTS_ROW.match(text)) is not None:
            known = links.get(number, NvLink(number=number))
            links[number] = replace(known, errors=(known.errors or 0) + int(row["count"]))
            if row["count"] != "0":
                bad.append(f"Link {number} -> {row['what']} {row['count']}")
        elif text[:1] not in {"|", "+"} or "NVLINK Error Counts" in text:
            break
        position += 1
    if index is None or not links:
        return position, []
    return position, [
        Gpu(
            who=Who(host=piece.host),
            source=piece.source(piece.lines[start]),
            tool="dcgmi nvlink -e",
            look=counter.next((piece.host, "dcgmi nvlink -e", index)),
            taken_at=piece.taken_at,
            index=index,
            links=tuple(links.values()),
            quote=f"NVLINK Error Counts GPU {index} {'; '.join(bad[:4])}".strip(),
        )
    ]


def is_topology(text: str) -> bool:
    """Tell whether a line is the header of ``topo -m``."""
    return text.lstrip().startswith("GPU") and _TOPOLOGY.match(text) is not None


def parse_topology(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read the matrix: for each GPU how it reaches the others (NV18, SYS, PIX, …)."""
    count = len(re.findall(r"GPU\d+", piece.lines[start].text))
    found: list[tuple[Line, int, tuple[str, ...]]] = []
    position = start + 1
    while position < len(piece.lines):
        row = _ROW.match(piece.lines[position].text)
        if row is None:
            if piece.lines[position].text.strip():
                break
            position += 1
            continue
        cells = tuple(row["cells"].split()[:count])
        if len(cells) != count or not all(_CELL.fullmatch(cell) for cell in cells):
            break
        found.append((piece.lines[position], int(row["index"]), cells))
        position += 1
    if not found:
        return position, []
    look = counter.next((piece.host, "topo"))
    return position, [
        Gpu(
            who=Who(host=piece.host),
            source=piece.source(line),
            tool="nvidia-smi topo -m",
            look=look,
            taken_at=piece.taken_at,
            index=index,
            peers=cells,
            quote=" ".join(line.text.split()),
        )
        for line, index, cells in found
    ]

"""What dcgmi prints: nvlink -s, nvlink -e and diag."""

from __future__ import annotations

from whyhang.collectors import limits
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.gpu.lines import Line, Lines

_COUNTS = "NVLINK Error Counts"
_FAILED = limits.compile(r"Fail(?:ure)?\b(?: - GPUs?: (?P<gpus>[\d, ]++))?")
_FAILED_GPU = limits.compile(r"GPU(?P<gpu>\d{1,9}+): Fail")
_ERROR = limits.compile(r"GPU (?P<gpu>\d{1,9}+) ")


def parse_links(lines: Lines) -> list[Draft] | None:
    """Read "gpuId 0:" and the letters below it: U up, D down, X disabled, _ not there."""
    name, _, number = lines.next.words.rstrip(":").partition(" ")
    index, letters = values.integer(number), lines.behind.text.split()
    if name != "gpuId" or index is None or not letters or not set(letters) <= set("UDX_"):
        return None
    lines.take()
    row = lines.take()
    gpu = Draft("dcgmi nvlink", row.number, f"gpuId {index}: {row.words}", index=index)
    for link, letter in enumerate(letters):
        if letter in "UD":
            gpu.put_link(link, active=letter == "U")
    return [gpu]


def parse_errors(lines: Lines) -> list[Draft] | None:
    """Read the error counters of the links of one GPU."""
    if _COUNTS not in lines.next.text:
        return None
    head = lines.take()
    gpu = Draft("dcgmi nvlink -e", head.number)
    link = 0
    bad: list[str] = []
    for line in lines:
        what, cell = [*_cells(line), "", ""][:2]
        kind, _, name = what.partition(" ")
        number, count = values.integer(name), values.integer(cell)
        if kind == "GPU" and number is not None:
            if "index" in gpu.fields:
                break
            gpu.fields["index"] = number
        elif kind == "Link" and number is not None:
            link = number
        elif kind == "->" and count is not None:
            gpu.put_link(link, errors=count)
            if count:
                bad.append(f"Link {link} {what} {count}")
        elif line.words[:1] not in {"|", "+"} or _COUNTS in line.text:
            break
    if "index" not in gpu.fields or not gpu.links:
        return []
    gpu.quote = f"{_COUNTS} GPU {gpu.fields['index']} {'; '.join(bad[:4])}".strip()
    return [gpu]


def _cells(line: Line) -> list[str]:
    """Return the cells of a row between its bars; none where it is no row."""
    text = line.words
    return [cell.strip() for cell in text[1:-1].split("|")] if text[:1] == text[-1:] == "|" else []


def parse_diag(lines: Lines) -> list[Draft] | None:
    """Read the failed tests of diag, of those GPUs that it names."""
    header = lines.next.text
    if "Diagnostic" not in header or "Result" not in header or header.lstrip()[0] != "|":
        return None
    lines.take()
    gpus: dict[int, Draft] = {}
    failed: dict[int, dict[str, None]] = {}
    test = ""
    for line in lines:
        if line.words[:1] not in {"", "|", "+"}:
            break
        cells = _cells(line)
        if len(cells) != 2:
            continue
        test = cells[0] or test
        for index in _failed(test, cells[1]):
            gpus.setdefault(index, Draft("dcgmi diag", line.number, line.words, index=index))
            failed.setdefault(index, {})[test] = None
    for index, tests in failed.items():
        gpus[index].trouble(f"dcgmi diag failed: {', '.join(tests)}")
    return [gpu for _, gpu in sorted(gpus.items())]


def _failed(test: str, result: str) -> list[int]:
    """Return the GPUs for which a test failed."""
    error = _ERROR.match(result) if test == "Error" else None
    if one := error or _FAILED_GPU.search(result):
        return [int(one["gpu"])]
    many = _FAILED.match(result)
    listed = ((many and many["gpus"]) or "").split(",")
    return [index for word in listed if (index := values.integer(word)) is not None]

"""Lists with a row for each GPU and moment: nvidia-smi dmon and pmon, dcgmi dmon.

The header names the columns, in any choice and order; it comes again every so many rows. Units
stand in a second line. A dash or N/A means that there is no value.
"""

from __future__ import annotations

from whyhang.analyzer.facts import Gpu, GpuProcess, Who, replace
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.gpu.lines import Counter, Line, Piece

# nvidia-smi dmon -s pucvmet, as its manual names them; "sm" is the time with a kernel running.
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
}
# dcgmi dmon prints the short names of its fields (dcgm_fields.cpp).
_DCGM = {
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


_OTHERS = frozenset({"#", "id", "gpu-i", "gpu-ci", "switch", "link", "cpu"})
"""How rows of dcgmi dmon begin that are no GPU's."""


def is_dmon(text: str) -> bool:
    """Tell whether a line is a header of nvidia-smi dmon or pmon."""
    words = text.lstrip("# ").split()
    return text.startswith("#") and "gpu" in words and bool({"pid", "sm", "pwr"} & set(words))


def is_dcgm(text: str) -> bool:
    """Tell whether a line is a header of dcgmi dmon."""
    return text.startswith("#") and text.lstrip("# ").startswith("Entity") and len(text) > 8


def parse_dmon(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read the rows below a header of dmon or pmon, up to what is neither row nor header."""
    found: list[Gpu] = []
    names: list[str] = []
    shown: dict[int, tuple[Line, Draft]] = {}  # of pmon: the GPUs of one sample
    position = start
    while position < len(piece.lines):
        line = piece.lines[position]
        text = line.text.strip()
        if is_dmon(text):
            names = text.lstrip("# ").split()
        elif text and not text.startswith("#"):
            cells = text.split(None, len(names) - 1)
            told = dict(zip(names, cells, strict=False))
            index = told.get("gpu", "")
            if not index.isdecimal() or len(cells) < min(len(names), 3):
                break
            if "pid" in names:
                if shown and int(index) < max(shown):
                    found += _pmon(piece, shown, counter)
                _process(shown, line, int(index), told)
            else:
                found.append(_sample(piece, line, int(index), told, counter))
        position += 1
    return position, [*found, *_pmon(piece, shown, counter)]


def _sample(piece: Piece, line: Line, index: int, told: dict[str, str], counter: Counter) -> Gpu:
    draft = Draft(index=index)
    for name, cell in told.items():
        if name in _DMON:
            draft.put(_DMON[name], cell, name=name)
    gpu = draft.finish(
        Who(host=piece.host), piece.source(line), "nvidia-smi dmon", line.text.strip()
    )
    look = counter.next((piece.host, "dmon", index))
    return replace(gpu, look=look, taken_at=_taken_at(piece, told))


def _taken_at(piece: Piece, told: dict[str, str]) -> float | None:
    """Read the columns of -o DT: 20260701 13:06:53."""
    date, clock = told.get("Date", ""), told.get("Time", "")
    if piece.taken_at is not None or len(date) != 8:
        return piece.taken_at
    return values.moment(f"{date[:4]}-{date[4:6]}-{date[6:]} {clock}")


def _process(
    shown: dict[int, tuple[Line, Draft]], line: Line, index: int, told: dict[str, str]
) -> None:
    _, draft = shown.setdefault(index, (line, Draft(index=index)))
    draft.processes = draft.processes or []
    pid = values.number(told.get("pid"))
    if pid is None:
        return
    busy = values.number(told.get("sm"))
    if busy is not None:
        draft.fields["busy"] = max(busy, draft.fields.get("busy") or 0)
    name = told.get("command") or told.get("name") or ""
    draft.processes.append(
        GpuProcess(
            pid=int(pid),
            name=name.strip(),
            memory=values.mebibytes(told.get("fb")),
            graphics=told.get("type") == "G",
        )
    )


def _pmon(piece: Piece, shown: dict[int, tuple[Line, Draft]], counter: Counter) -> list[Gpu]:
    """Give what one sample of pmon tells, and begin the next."""
    found = [
        replace(
            draft.finish(
                Who(host=piece.host), piece.source(line), "nvidia-smi pmon", line.text.strip()
            ),
            look=counter.next((piece.host, "pmon", index)),
            taken_at=piece.taken_at,
        )
        for index, (line, draft) in shown.items()
    ]
    shown.clear()
    return found


def parse_dcgm(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read the rows of dcgmi dmon: "GPU 0   100   118.3"; other entities are left out."""
    found: list[Gpu] = []
    names: list[str] = []
    position = start
    while position < len(piece.lines):
        line = piece.lines[position]
        words = line.text.split()
        if is_dcgm(line.text.strip()):
            names = line.text.replace("#", " ").split()[1:]
        elif words[:1] == ["GPU"] and len(words) > 2 and words[1].isdecimal():
            draft = Draft(index=int(words[1]))
            for name, cell in zip(names, words[2:], strict=False):
                if name in _DCGM:
                    draft.put(_DCGM[name], cell, name=name)
            gpu = draft.finish(
                Who(host=piece.host), piece.source(line), "dcgmi dmon", line.text.strip()
            )
            look = counter.next((piece.host, "dcgmi dmon", gpu.index))
            found.append(replace(gpu, look=look, taken_at=piece.taken_at))
        elif words and words[0].lower() not in {
            "#",
            "id",
            "gpu-i",
            "gpu-ci",
            "switch",
            "link",
            "cpu",
        }:
            break
        position += 1
    return max(position, start + 1), found

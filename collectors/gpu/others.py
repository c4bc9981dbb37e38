"""dcgmi diag, gpustat, and rocm-smi as far as it names GPUs and what they do."""

from __future__ import annotations

import re

from whyhang.analyzer.facts import Gpu, GpuProcess, Who, replace
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.gpu.lines import Counter, Line, Piece, time_before

_DIAG_ROW = re.compile(r"\|\s*(?P<test>[^|]*?)\s*\|\s*(?P<result>[^|]*?)\s*\|\s*$")
_FAIL = re.compile(r"Fail(?:ure)?\b(?: - GPUs?: (?P<gpus>[\d, ]+))?")
_ERROR = re.compile(r"GPU (?P<gpu>\d+) ")
_GPUSTAT = re.compile(
    r"\[(?P<index>\d+)\] (?P<name>[^|]+?)\s*\|\s*(?P<temp>\d+).C,\s*(?P<busy>\d+|\?+) %"
    r"(?:,\s*(?P<power>\d+)(?: / (?P<limit>\d+))? W)?\s*\|\s*(?P<used>\d+) / (?P<total>\d+) MB"
    r"(?:\s*\|(?P<users>.*))?$"
)
_GPUSTAT_USER = re.compile(r"(?P<name>[^\s/()]*)/(?P<pid>\d+)\((?P<memory>\d+M|\?+M)\)")
_ONE_GPU = re.compile(r"GPU(?P<gpu>\d+): Fail")
_ROCM_HEAD = re.compile(r"(?:GPU|Device)\s.*\bGPU%\s*$")
_ROCM_VALUE = re.compile(r"GPU\[(?P<index>\d+)\]\s*: (?P<what>[^:]+): (?P<value>.+?)\s*$")
_ROCM_FIELDS = {
    "GPU use (%)": "busy",
    "GPU Memory Allocated (VRAM%)": "",
    "Unique ID": "uuid",
    "PCI Bus": "bus",
    "Card series": "name",
    "Card Series": "name",
    "Average Graphics Package Power (W)": "power",
    "Current Socket Graphics Package Power (W)": "power",
}


def is_diag(text: str) -> bool:
    """Tell whether a line is the header of the result of dcgmi diag."""
    return text.startswith("|") and "Diagnostic" in text and "Result" in text


def parse_diag(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read the failed tests of dcgmi diag, of those GPUs that it names."""
    failed: dict[int, tuple[Line, list[str]]] = {}
    test, position = "", start + 1
    while position < len(piece.lines):
        line = piece.lines[position]
        text = line.text.strip()
        if text and text[0] not in "|+":
            break
        row = _DIAG_ROW.match(text)
        if row is not None:
            test = row["test"] or test
            for index in _failed(test, row["result"]):
                _, tests = failed.setdefault(index, (line, []))
                tests.append(test)
        position += 1
    look = counter.next((piece.host, "dcgmi diag"))
    return position, [
        Gpu(
            who=Who(host=piece.host),
            source=piece.source(line),
            tool="dcgmi diag",
            look=look,
            taken_at=piece.taken_at,
            index=index,
            trouble=f"dcgmi diag failed: {', '.join(dict.fromkeys(tests))}",
            quote=" ".join(line.text.split()),
        )
        for index, (line, tests) in sorted(failed.items())
    ]


def _failed(test: str, result: str) -> list[int]:
    if test == "Error" and (error := _ERROR.match(result)) is not None:
        return [int(error["gpu"])]
    one = _ONE_GPU.search(result)
    if one is not None:
        return [int(one["gpu"])]
    many = _FAIL.match(result)
    listed = many["gpus"] if many is not None else None
    return [int(word) for word in (listed or "").replace(",", " ").split()]


def is_gpustat(text: str) -> bool:
    """Tell whether a line is one of gpustat's."""
    return text.startswith("[") and _GPUSTAT.match(text) is not None


def parse_gpustat(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read gpustat: "[0] Tesla P100 | 48'C, 55 % | 15757 / 16280 MB | user:python/123(10M)"."""
    found: list[Gpu] = []
    position = start
    look = counter.next((piece.host, "gpustat"))
    while position < len(piece.lines):
        line = piece.lines[position]
        row = _GPUSTAT.match(line.text.strip())
        if row is None:
            break
        draft = Draft(index=int(row["index"]), name=row["name"])
        for field, name in (("temperature", "temp"), ("busy", "busy"), ("power", "power")):
            draft.put(field, row[name])
        draft.put("power_limit", row["limit"])
        draft.put("memory_used", row["used"])
        draft.put("memory_total", row["total"])
        users = _GPUSTAT_USER.finditer(row["users"] or "")
        for user in users:
            draft.processes = draft.processes or []
            memory = values.number(user["memory"].rstrip("M"))
            name = user["name"].rpartition(":")[2]
            draft.processes.append(
                GpuProcess(
                    pid=int(user["pid"]), name=user["name"].rpartition(":")[2], memory=memory
                )
            )
        gpu = draft.finish(Who(host=piece.host), piece.source(line), "gpustat", line.text.strip())
        found.append(replace(gpu, look=look, taken_at=time_before(piece, start)))
        position += 1
    return position, found


def is_rocm(text: str) -> bool:
    """Tell whether a line is the header of rocm-smi's table, or one of its values."""
    return text.startswith("GPU[") or (text.endswith("%") and _ROCM_HEAD.match(text) is not None)


def parse_rocm(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read rocm-smi: its table, or the list of values that --showuse and others print."""
    if piece.lines[start].text.startswith("GPU["):
        return _values(piece, start, counter)
    found: list[Gpu] = []
    position = start + 1
    look = counter.next((piece.host, "rocm-smi"))
    while position < len(piece.lines):
        line = piece.lines[position]
        words = line.text.split()
        if words and words[0].isdecimal() and words[-1].endswith("%"):
            draft = Draft(index=int(words[0]))
            draft.put("busy", words[-1])
            watts = next((word for word in words if re.fullmatch(r"[\d.]+W", word)), None)
            draft.put("power", watts)
            gpu = draft.finish(
                Who(host=piece.host), piece.source(line), "rocm-smi", " ".join(words)
            )
            found.append(replace(gpu, look=look, taken_at=piece.taken_at))
        elif found and words:
            break
        position += 1
    return position, found


def _values(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    drafts: dict[int, tuple[Line, Draft]] = {}
    position = start
    while position < len(piece.lines):
        line = piece.lines[position]
        found = _ROCM_VALUE.match(line.text)
        if found is not None:
            index = int(found["index"])
            _, draft = drafts.setdefault(index, (line, Draft(index=index)))
            field = _ROCM_FIELDS.get(found["what"].strip())
            if field == "uuid":
                draft.fields["uuid"] = f"ROCm {found['value']}"
            elif field:
                draft.put(field, found["value"])
        elif line.text.strip() and not line.text.startswith(("=", "GPU[")):
            break
        position += 1
    look = counter.next((piece.host, "rocm-smi values"))
    return position, [
        replace(
            draft.finish(Who(host=piece.host), piece.source(line), "rocm-smi", line.text.strip()),
            look=look,
            taken_at=piece.taken_at,
        )
        for line, draft in drafts.values()
        if values.number(str(draft.fields.get("busy"))) is not None or "bus" in draft.fields
    ]

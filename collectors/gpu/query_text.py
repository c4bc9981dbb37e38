"""``nvidia-smi -q`` as text: labels and values, with sections by indentation.

The labels are those of drivers 384 to 610. ``-d SECTION`` prints a part of it. It also stands
in the middle of nvidia-bug-report.log.
"""

from __future__ import annotations

import re

from whyhang.analyzer.facts import Gpu, GpuProcess, Who, replace
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.fields import TREE, Draft, Tree
from whyhang.collectors.gpu.lines import Counter, Line, Piece

START = "==NVSMI LOG=="
TOOL = "nvidia-smi -q"
_GPU = re.compile(r"GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_PAIR = re.compile(r"(?P<indent>\s*)(?P<label>[^:]+?)\s*: ?(?P<value>.*)$")
_PROCESS = {
    "process_id": "pid",
    "name": "name",
    "type": "type",
    "used_gpu_memory": "memory",
    "gpu_instance_id": "gi",
    "compute_instance_id": "ci",
}
_MAX_LINES = 5000
"""Of one GPU: what comes behind the last one in a bug report is of another tool."""


def parse(piece: Piece, start: int, counter: Counter) -> tuple[int, list[Gpu]]:
    """Read the log that begins at ``start``; give the line behind it and its GPUs."""
    head: dict[str, str] = {}
    position = start + 1
    lines = piece.lines
    while position < len(lines) and _GPU.match(lines[position].text) is None:
        text = lines[position].text
        pair = _PAIR.match(text)
        if START in text or (text.strip() and pair is None):
            return position, []
        if pair is not None:
            head[_key(pair["label"])] = pair["value"].strip()
        position += 1
    found: list[Gpu] = []
    look = counter.next((piece.host, TOOL))
    taken_at = piece.taken_at
    if taken_at is None:
        taken_at = values.moment(head.get("timestamp"))
    while position < len(lines) and (begun := _GPU.match(lines[position].text)) is not None:
        line = lines[position]
        draft = Draft(index=len(found))
        draft.put("bus", begun["bus"])
        draft.put("driver", head.get("driver_version"))
        cuda = values.told(head.get("cuda_version"))
        if cuda is not None:
            draft.fields["cuda"] = cuda
        position = _gpu(lines, position + 1, draft)
        gpu = draft.finish(Who(host=piece.host), piece.source(line), TOOL)
        found.append(replace(gpu, look=look, taken_at=taken_at))
    if "attached_gpus" in head and head["attached_gpus"] != str(len(found)):
        # With -i only some are printed, and their numbers are not told.
        found = [replace(gpu, index=None) for gpu in found]
    return position, found


def _gpu(lines: tuple[Line, ...], start: int, draft: Draft) -> int:
    """Read one GPU's lines into ``draft``; give the line behind them."""
    levels: list[tuple[int, str]] = []  # (indentation, label) of the open sections
    process: dict[str, str] = {}
    position = start
    while position < min(len(lines), start + _MAX_LINES):
        text = lines[position].text
        if not text.strip():
            position += 1
            continue
        if not text[0].isspace():
            break
        pair = _PAIR.match(text)
        label = pair["label"].strip() if pair is not None else text.strip()
        indent = len(text) - len(text.lstrip())
        while levels and levels[-1][0] >= indent:
            levels.pop()
        key = _key(label)
        path = [name for _, name in levels]
        levels.append((indent, key))
        position += 1
        if pair is None:
            if key == "processes":
                draft.processes = draft.processes or []
            elif values.is_trouble(label):
                draft.trouble(label, lost=values.is_lost(label))
            continue
        if path[:1] == ["processes"]:
            _process(draft, process, key, pair["value"])
        else:
            _value(draft, path, key, pair["value"])
    _close(draft, process)
    return position


def _value(draft: Draft, path: list[str], key: str, value: str) -> None:
    """Take one value, if its place in the sections is a wanted one."""
    if path[:1] and path[0] in {"clocks_event_reasons", "clocks_throttle_reasons"}:
        draft.reason(key, value)
        return
    if key == "processes":
        if value.strip() == "None":
            draft.processes = draft.processes or []
        return
    tree: Tree | str | None = TREE
    for name in (*path, key):
        tree = tree.get(name) if isinstance(tree, dict) else None
    if isinstance(tree, str):
        draft.put(tree, value, name="/".join((*path, key)))


def _process(draft: Draft, process: dict[str, str], key: str, value: str) -> None:
    name = _PROCESS.get(key)
    if name is None:
        return
    if (name == "gi" or name == "pid") and "pid" in process:
        _close(draft, process)
    process[name] = value.strip()


def _close(draft: Draft, process: dict[str, str]) -> None:
    """Make a process of what was gathered."""
    pid = values.number(process.get("pid"))
    if pid is not None:
        gi, ci = values.told(process.get("gi")), values.told(process.get("ci"))
        draft.processes = draft.processes or []
        draft.processes.append(
            GpuProcess(
                pid=int(pid),
                name=(values.told(process.get("name")) or "")[:200],
                memory=values.mebibytes(process.get("memory")),
                slice=f"{gi}/{ci or 0}" if gi is not None else None,
                graphics=process.get("type") == "G",
            )
        )
    process.clear()


def _key(label: str) -> str:
    return "_".join(label.lower().split())

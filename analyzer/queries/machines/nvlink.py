"""NVLinks of a GPU are down, or count new errors."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Gpu, grouped
from whyhang.analyzer.findings.signature import CLEAR, INDIRECT, Hit
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.queries.machines.gpus import Symptom, broken_gpus


def _links_down(devices: Sequence[Device]) -> list[tuple[Device, Symptom]]:
    """Return the GPUs with fewer active NVLinks than those beside them.

    A link that no GPU of its kind on the host has is no fault: boards leave some unused.
    """
    kinds = grouped(devices, lambda device: (device.place, device.now("name")))
    return [each for alike in kinds.values() for each in _fewer_links(alike)]


def _errors_grow(devices: Sequence[Device]) -> list[tuple[Device, Symptom]]:
    broken: list[tuple[Device, Symptom]] = []
    for device in devices:
        first: dict[int, int] = {}
        grown: dict[int, tuple[Gpu, str]] = {}
        for state in device.states:
            for link in state.links or ():
                if link.errors is None:
                    continue
                before = first.setdefault(link.number, link.errors)
                if link.errors > before:
                    grown[link.number] = state, f"link {link.number}: {before} to {link.errors}"
        if grown:
            words = ", ".join(says for _, (_, says) in sorted(grown.items())[:4])
            last = list(grown.values())[-1][0]
            broken.append((device, (CLEAR, last, f"NVLink errors grew ({words})")))
    return broken


def _active(device: Device) -> int | None:
    """Count the links that are up, as the last state has it."""
    for state in reversed(device.states):
        active = [link.active for link in state.links or () if link.active is not None]
        if active:
            return sum(active)
    return None


def _fewer_links(devices: Sequence[Device]) -> list[tuple[Device, Symptom]]:
    """Compare GPUs of one kind on one host: their links, and how the matrix joins them."""
    counts = {device.number: n for device in devices if (n := _active(device)) is not None}
    broken: list[tuple[Device, Symptom]] = []
    usual, often = Counter(counts.values()).most_common(1)[0] if counts else (0, 0)
    for device in devices:
        count = counts.get(device.number)
        if count is not None and count < usual and often > len(counts) / 2:
            state = next(s for s in reversed(device.states) if s.links)
            words = f"{count} NVLinks are active, the GPUs beside it have {usual}"
            broken.append((device, (1.0, state, words)))
    return broken or _odd_rows(devices)


def _odd_rows(devices: Sequence[Device]) -> list[tuple[Device, Symptom]]:
    """Return the GPU that a full mesh joins to all others by fewer links."""
    rows = {device.number: device.now("peers") for device in devices}
    cells = [[c for c in row if c != "X"] for row in rows.values() if row]
    if len(cells) < 3 or not all(cell.startswith("NV") for row in cells for cell in row):
        return []
    usual = Counter(cell for row in cells for cell in row).most_common(1)[0][0]
    fewer = {"X", *(f"NV{number}" for number in range(1, int(usual[2:])))}
    odd = [
        device
        for device in devices
        if (row := rows[device.number]) and all(c in fewer for c in row)
    ]
    if len(odd) != 1:
        return []
    words = f"all its connections have fewer links than {usual}"
    return [(odd[0], (INDIRECT, odd[0].state_with("peers"), words))]


def nvlinks(case: Case, fault: Literal["down", "errors"]) -> Iterable[Hit]:
    """Return one hit for GPUs whose NVLinks are down, or count new errors, if any."""
    devices = case.job.gpus.devices
    return broken_gpus(case, (_links_down if fault == "down" else _errors_grow)(devices))

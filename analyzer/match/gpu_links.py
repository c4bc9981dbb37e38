"""Matchers over NVLinks: links that are down, and links whose errors grow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Gpu, Record
from whyhang.analyzer.findings.signature import INDIRECT, Hit
from whyhang.analyzer.job.devices import Device
from whyhang.analyzer.match.gpu import Told, hits_on


class LinkFault(Record):
    """A GPU has fewer active NVLinks than those beside it, or its links count new errors.

    ``growing`` asks for errors that came between two looks. A link that no GPU of its kind on
    the host has is no fault: bridges and boards leave some unused.
    """

    growing: bool

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all such GPUs."""
        found: list[tuple[Device, Told]] = []
        places: dict[tuple[str, str | None], list[Device]] = defaultdict(list)
        for device in case.job.gpus.devices:
            if self.growing:
                told = _link_errors(device)
                if told is not None:
                    found.append((device, told))
            else:
                places[device.place, device.now("name")].append(device)
        for devices in places.values():
            found += _fewer_links(devices)
        return hits_on(case, found)


def link_errors_grow() -> LinkFault:
    """Ask for NVLinks whose error counters grew between two looks."""
    return LinkFault(growing=True)


def link_down() -> LinkFault:
    """Ask for GPUs with fewer active NVLinks than their neighbours."""
    return LinkFault(growing=False)


def _link_errors(device: Device) -> Told | None:
    first: dict[int, int] = {}
    grown: dict[int, tuple[int, int]] = {}
    last: Gpu | None = None
    for state in device.states:
        for link in state.links or ():
            if link.errors is None:
                continue
            before = first.setdefault(link.number, link.errors)
            if link.errors > before:
                grown[link.number] = before, link.errors
                last = state
    if last is None:
        return None
    words = ", ".join(f"link {n}: {a} to {b}" for n, (a, b) in sorted(grown.items())[:4])
    return 1.0, last, f"NVLink errors grew ({words})"


def _active(device: Device) -> int | None:
    """Count the links that are up, as told last."""
    for state in reversed(device.states):
        told = [link.active for link in state.links or () if link.active is not None]
        if told:
            return sum(told)
    return None


def _fewer_links(devices: Sequence[Device]) -> list[tuple[Device, Told]]:
    """Compare GPUs of one kind on one host: their links, and how the matrix joins them."""
    counts = {device.number: n for device in devices if (n := _active(device)) is not None}
    found: list[tuple[Device, Told]] = []
    usual, often = Counter(counts.values()).most_common(1)[0] if counts else (0, 0)
    for device in devices:
        count = counts.get(device.number)
        if count is not None and count < usual and often > len(counts) / 2:
            state = next(s for s in reversed(device.states) if s.links)
            words = f"{count} NVLinks are active, the GPUs beside it have {usual}"
            found.append((device, (1.0, state, words)))
    return found or _odd_rows(devices)


def _odd_rows(devices: Sequence[Device]) -> list[tuple[Device, Told]]:
    """Find the GPU that a full mesh joins to all others by fewer links."""
    rows = {device.number: device.now("peers") for device in devices}
    cells = [[c for c in row if c != "X"] for row in rows.values() if row]
    if len(cells) < 3 or not all(cell.startswith("NV") for row in cells for cell in row):
        return []
    usual = Counter(cell for row in cells for cell in row).most_common(1)[0][0]
    odd = [
        device
        for device in devices
        if (row := rows[device.number]) and all(c in ("X", *_fewer(usual)) for c in row)
    ]
    if len(odd) != 1:
        return []
    words = f"all its connections have fewer links than {usual}"
    return [(odd[0], (INDIRECT, odd[0].state_with("peers"), words))]


def _fewer(usual: str) -> list[str]:
    return [f"NV{number}" for number in range(1, int(usual[2:]))]

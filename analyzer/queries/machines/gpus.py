"""GPUs: hits about them, their names and values, what is wrong with them and their links.

Counters since the driver was loaded count as a cause where they grew between two looks, and
as a possibility where they stand above zero; counters over the life of the board never do.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Gpu, counted, fold, grouped
from whyhang.analyzer.findings.signature import (
    CLEAR,
    CONTRADICTED,
    GUESSED,
    INCOMPLETE,
    INDIRECT,
    Hit,
)
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.queries.registry import query, side
from whyhang.analyzer.queries.waits.states import waiters_for
from whyhang.analyzer.report import Evidence, cite

SHOWN = 6
"""GPUs that are quoted."""

AT_REST = 5
"""Per cent of time with a kernel running up to which a GPU has nothing to do."""

HELD = 1024.0
"""MiB from which memory counts as a program's."""

Symptom = tuple[float, Gpu, str]
"""How sure it is that a GPU is broken, the state that shows it, and words for it."""


Fault = Literal[
    "lost",
    "unreadable",
    "to-be-reset",
    "ecc-errors",
    "to-be-repaired",
    "out-of-fabric",
    "failed-test",
]


@query
def faulty_gpus(case: Case, fault: Fault) -> tuple[Hit, ...]:
    """Return one hit for all GPUs with a fault of their own, if any."""
    told = ((device, faults_of(device).get(fault)) for device in case.job.gpus.devices)
    return broken_gpus(case, [(device, symptom) for device, symptom in told if symptom])


def broken_gpus(case: Case, broken: Sequence[tuple[Device, Symptom]]) -> tuple[Hit, ...]:
    """Return one hit for GPUs with their symptoms, if any; less sure where no rank uses them."""
    if not broken:
        return ()
    strength = max(symptom[0] for _, symptom in broken)
    if case.job.gpus.by_member and not any(device.members for device, _ in broken):
        strength *= GUESSED
    if case.graph.progress:
        strength *= CONTRADICTED
    says = "; ".join(dict.fromkeys(words for _, (_, _, words) in broken))
    hit = hit_on(
        case,
        [device for device, _ in broken],
        evidence=[cite_gpu(case, d, state, words) for d, (_, state, words) in broken[:SHOWN]],
        strength=strength,
        fields={"says": says[:240]},
    )
    return (hit,)


def hit_on(
    case: Case,
    devices: Sequence[Device],
    *,
    evidence: Iterable[Evidence],
    strength: float = 1.0,
    fields: dict[str, str] | None = None,
    beside: Iterable[Device] = (),
) -> Hit:
    """Return a hit about GPUs; ``beside`` are those that it was compared with."""
    members = tuple(sorted({number for device in devices for number in device.members}))
    waiting = tuple(number for number in waiters_for(case) if number not in members)
    hosts = list(dict.fromkeys(device.host or "the host" for device in devices))
    return Hit(
        members=members,
        affected=waiting,
        evidence=tuple(evidence),
        strength=strength,
        gpus=tuple(device.number for device in (*devices, *beside)),
        fields={
            "gpus": gpu_names(devices),
            "used": f", used by {case.names(members)}" if members else "",
            "hosts": ", ".join(hosts[:4]) + (", …" if len(hosts) > 4 else ""),
            "index": str(devices[0].now("index")) if devices[0].now("index") is not None else "N",
            **(fields or {}),
        },
    )


def gpu_names(devices: Sequence[Device]) -> str:
    """Return names of GPUs: one in full, several of a host by number, more by their count."""
    if len(devices) == 1:
        return str(devices[0])
    hosts = grouped(devices, lambda device: device.host)
    if len(hosts) > 3:
        return f"{counted(len(devices), 'GPU')} of {counted(len(hosts), 'host')}"
    parts = []
    for host, own in hosts.items():
        numbers = [device.now("index") for device in own]
        known = [number for number in numbers if number is not None]
        label = f"GPUs {fold(known)}" if len(known) == len(own) else f"{len(own)} GPUs"
        if len(own) == 1:
            label = own[0].name
        parts.append(f"{label} of {host}" if host else label)
    return " and ".join(parts)


def cite_gpu(case: Case, device: Device, state: Gpu, words: str = "") -> Evidence:
    """Return what a tool printed of a GPU, or its values where that is too long to keep."""
    ranks = case.ranks(device.members)
    quote = state.quote or f"{device.name} {state.bus or ''}: {words or _values(state)}"
    return cite(state.source, quote, ranks[0] if len(ranks) == 1 else None)


def _values(state: Gpu) -> str:
    """Return load and power in short."""
    parts = []
    if state.busy is not None:
        parts.append(f"utilization {state.busy:g} %")
    if state.memory_busy is not None:
        parts.append(f"memory {state.memory_busy:g} %")
    if state.power is not None:
        limit = f" of {state.power_limit:g} W" if state.power_limit else " W"
        parts.append(f"power {state.power:g}{limit}")
    return ", ".join(parts) or "no values"


_REMAPPING = {
    "remap_failed": (CLEAR, "remapping of rows has failed"),
    "remap_pending": (INCOMPLETE, "a row waits to be remapped, which a reset does"),
    "retire_pending": (INCOMPLETE, "a page waits to be retired, which a reset does"),
}


def faults_of(device: Device) -> dict[Fault, Symptom]:
    """Return what is wrong with a GPU itself."""
    faults: dict[Fault, Symptom] = {}
    for state in reversed(device.states):  # the last one counts, but for when it was lost
        told = _told_by(state)
        if told is not None and (told[0] == "lost" or told[0] not in faults):
            faults[told[0]] = told[1]
    counts = device.every("ecc_uncorrected")
    if counts and counts[-1]:
        strength = CLEAR if counts[-1] > counts[0] else GUESSED
        words = f"{counts[-1]:g} uncorrectable ECC errors since the driver was loaded"
        if counts[-1] > counts[0]:
            words = f"uncorrectable ECC errors grew from {counts[0]:g} to {counts[-1]:g}"
        faults["ecc-errors"] = strength, device.state_with("ecc_uncorrected"), words
    for field, (strength, words) in _REMAPPING.items():
        if device.now(field):
            faults.setdefault("to-be-repaired", (strength, device.state_with(field), words))
    fabric = device.now("fabric")  # without NVSwitch there is none
    joined = fabric is None or fabric.lower() in {"completed", "n/a"}
    if not joined and "not supported" not in fabric.lower():
        faults["out-of-fabric"] = CLEAR, device.state_with("fabric"), f"fabric state: {fabric}"
    return faults


def _told_by(state: Gpu) -> tuple[Fault, Symptom] | None:
    """Return the fault that a tool told in words."""
    trouble = state.trouble or ""
    if state.lost:
        return "lost", (CLEAR, state, trouble or "lost")
    if state.recovery is not None:
        return "to-be-reset", (CLEAR, state, f"recovery action: {state.recovery}")
    if state.tool == "dcgmi diag" and trouble:
        return "failed-test", (CLEAR, state, trouble)
    if "reset" in trouble.lower():
        return "to-be-reset", (CLEAR, state, trouble)
    if trouble:  # the driver cannot read its values
        return "unreadable", (CLEAR if ";" in trouble else INDIRECT, state, trouble)
    return None


@side("nvlinks", fault="down")
def _links_down(case: Case) -> tuple[Hit, ...]:
    """Return one hit for the GPUs with fewer active NVLinks than those beside them.

    A link that no GPU of its kind on the host has is no fault: boards leave some unused.
    """
    kinds = grouped(case.job.gpus.devices, lambda device: (device.place, device.now("name")))
    return broken_gpus(case, [each for alike in kinds.values() for each in _fewer_links(alike)])


@side("nvlinks", fault="errors")
def _errors_grow(case: Case) -> tuple[Hit, ...]:
    """Return one hit for the GPUs whose NVLinks count new errors between two looks."""
    broken: list[tuple[Device, Symptom]] = []
    for device in case.job.gpus.devices:
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
    return broken_gpus(case, broken)


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

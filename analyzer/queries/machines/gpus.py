"""GPUs: hits about them, their names and values, and the symptoms of broken ones.

Counters since the driver was loaded count as a cause where they grew between two looks, and
as a possibility where they stand above zero; counters over the life of the board never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


def gpus_with(case: Case, symptom: Callable[[Device], Symptom | None]) -> tuple[Hit, ...]:
    """Return one hit for all GPUs that show a symptom, if any; see ``broken_gpus``."""
    return broken_gpus(case, [(d, shown) for d in case.job.gpus.devices if (shown := symptom(d))])


def faulty_gpus(case: Case, fault: Fault) -> tuple[Hit, ...]:
    """Return one hit for all GPUs with a fault of their own, if any."""
    return gpus_with(case, FAULTS[fault])


def taken(case: Case) -> tuple[Hit, ...]:
    """Return one hit for all GPUs that take one process only, or none, and not their rank."""
    return gpus_with(case, lambda device: _shuts_rank_out(case, device))


def _shuts_rank_out(case: Case, device: Device) -> Symptom | None:
    """Return a symptom if a GPU takes one process only, or none, and its rank is not on it."""
    mode = str(device.now("compute_mode") or "").lower()
    pids = {case.member(n).pid for n in device.members}
    others = set(device.pids) - pids
    shut_out = bool(device.members) and not pids & set(device.pids)
    if not shut_out or not (mode == "prohibited" or (mode.startswith("exclusive") and others)):
        return None
    taken = f", taken by pid {min(others)}" if others else ""
    words = f"compute mode {device.now('compute_mode')}{taken}"
    return 1.0, device.state_with("compute_mode"), words


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
    return Hit(
        members=members,
        affected=waiting,
        evidence=tuple(evidence),
        strength=strength,
        gpus=tuple(device.number for device in (*devices, *beside)),
        fields={
            "gpus": gpu_names(devices),
            "used": f", used by {case.names(members)}" if members else "",
            "hosts": _hosts(devices),
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


def _hosts(devices: Sequence[Device]) -> str:
    hosts = list(dict.fromkeys(device.host or "the host" for device in devices))
    return ", ".join(hosts[:4]) + (", …" if len(hosts) > 4 else "")


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


def is_lost(device: Device) -> Symptom | None:
    """Return a symptom if the driver does not reach the GPU."""
    for state in device.states:
        if state.lost:
            return 1.0, state, state.trouble or "lost"
    return None


def is_unreadable(device: Device) -> Symptom | None:
    """Return a symptom if the driver cannot read its values."""
    for state in reversed(device.states):
        if state.trouble and not state.lost and state.tool != "dcgmi diag":
            if "reset" in state.trouble.lower():
                continue
            return CLEAR if ";" in state.trouble else INDIRECT, state, state.trouble
    return None


def needs_reset(device: Device) -> Symptom | None:
    """Return a symptom if it does no work before a reset."""
    for state in reversed(device.states):
        if state.recovery is not None:
            return 1.0, state, f"recovery action: {state.recovery}"
        if state.trouble and not state.lost and "reset" in state.trouble.lower():
            return 1.0, state, state.trouble
    return None


def has_ecc_errors(device: Device) -> Symptom | None:
    """Return a symptom if uncorrectable memory errors were counted."""
    counts = device.every("ecc_uncorrected")
    if not counts or not counts[-1]:
        return None
    state = device.state_with("ecc_uncorrected")
    if counts[-1] > counts[0]:
        return 1.0, state, f"uncorrectable ECC errors grew from {counts[0]:g} to {counts[-1]:g}"
    return GUESSED, state, f"{counts[-1]:g} uncorrectable ECC errors since the driver was loaded"


def needs_repair(device: Device) -> Symptom | None:
    """Return a symptom if memory waits to be repaired, or could not be."""
    if device.now("remap_failed"):
        return 1.0, device.state_with("remap_failed"), "remapping of rows has failed"
    for field, words in (
        ("remap_pending", "a row waits to be remapped"),
        ("retire_pending", "a page waits to be retired"),
    ):
        if device.now(field):
            return INCOMPLETE, device.state_with(field), f"{words}, which a reset does"
    return None


_JOINED = ("completed", "n/a", "not supported")


def is_out_of_fabric(device: Device) -> Symptom | None:
    """Return a symptom if it has not joined the fabric; without NVSwitch there is none."""
    state = device.now("fabric")
    if state is None or state.lower() in _JOINED or "not supported" in state.lower():
        return None
    return 1.0, device.state_with("fabric"), f"fabric state: {state}"


def failed_diagnostic(device: Device) -> Symptom | None:
    """Return a symptom if ``dcgmi diag`` failed on it."""
    for state in reversed(device.states):
        if state.tool == "dcgmi diag" and state.trouble:
            return 1.0, state, state.trouble
    return None


Fault = Literal[
    "lost",
    "unreadable",
    "to-be-reset",
    "ecc-errors",
    "to-be-repaired",
    "out-of-fabric",
    "failed-test",
]

FAULTS: dict[Fault, Callable[[Device], Symptom | None]] = {
    "lost": is_lost,
    "unreadable": is_unreadable,
    "to-be-reset": needs_reset,
    "ecc-errors": has_ecc_errors,
    "to-be-repaired": needs_repair,
    "out-of-fabric": is_out_of_fabric,
    "failed-test": failed_diagnostic,
}
"""What can be wrong with a GPU itself."""

"""Matchers over the health of GPUs: what is broken, held down, shared or taken.

Counters since the driver was loaded count as a cause where they grew between two looks, and
as a possibility where they stand above zero; counters over the life of the board never do.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import DriverSilence, Gpu, Record, fold
from whyhang.analyzer.findings.signature import (
    CLEAR,
    CONTRADICTED,
    GUESSED,
    INCOMPLETE,
    INDIRECT,
    Hit,
)
from whyhang.analyzer.job.devices import HOW, Device
from whyhang.analyzer.match.states import waiters_for
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.wording.describe import ranks_in_words

SHOWN = 6
"""GPUs that are quoted."""

AT_REST = 5
"""Per cent of time with a kernel running up to which a GPU has nothing to do."""

HELD = 1024.0
"""MiB from which memory counts as a program's."""

Told = tuple[float, Gpu, str]
"""How sure it is, the state that says so, and its words."""


class Fault(enum.Enum):
    """What is wrong with a GPU itself."""

    LOST = "lost"
    UNREADABLE = "unreadable"
    RESET = "reset"
    ECC = "ecc"
    REPAIR = "repair"
    FABRIC = "fabric"
    TESTED = "tested"


class Faulty(Record):
    """GPUs have such a fault. It says less where the ranks are known to use others."""

    fault: Fault

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all GPUs that have it; the ranks on them are where to look."""
        found = [(d, told) for d in case.job.gpus.devices if (told := FAULTS[self.fault](d))]
        return hits_on(case, found)


def faulty(fault: Fault) -> Faulty:
    """Ask for GPUs that are broken so."""
    return Faulty(fault=fault)


def hits_on(case: Case, found: Sequence[tuple[Device, Told]]) -> tuple[Hit, ...]:
    """Give one hit for all GPUs of which something is told; less sure where no rank uses them."""
    if not found:
        return ()
    strength = max(told[0] for _, told in found)
    if case.job.gpus.by_member and not any(device.members for device, _ in found):
        strength *= GUESSED
    if case.graph.progress:
        strength *= CONTRADICTED
    said = "; ".join(dict.fromkeys(told[2] for _, told in found))
    return (
        hit_on(
            case,
            [device for device, _ in found],
            evidence=[quoted(case, device, told[1], told[2]) for device, told in found[:SHOWN]],
            strength=strength,
            fields={"says": said[:240]},
        ),
    )


def hit_on(
    case: Case,
    devices: Sequence[Device],
    *,
    evidence: Iterable[Evidence],
    strength: float = 1.0,
    fields: dict[str, str] | None = None,
    beside: Iterable[Device] = (),
    names_culprit: bool = True,
) -> Hit:
    """Make a hit about GPUs; ``beside`` are those that it was compared with."""
    members = tuple(sorted({number for device in devices for number in device.members}))
    waiting = tuple(number for number in waiters_for(case) if number not in members)
    return Hit(
        members=members,
        affected=waiting,
        evidence=tuple(evidence),
        strength=strength,
        names_culprit=names_culprit,
        gpus=tuple(device.number for device in (*devices, *beside)),
        fields={
            "gpus": names(devices),
            "used": _used(case, members),
            "hosts": _hosts(devices),
            "index": str(devices[0].now("index")) if devices[0].now("index") is not None else "N",
            **(fields or {}),
        },
    )


def names(devices: Sequence[Device]) -> str:
    """Name GPUs: one in full, several of a host by their numbers, more by their count."""
    if len(devices) == 1:
        return str(devices[0])
    hosts: dict[str | None, list[Device]] = defaultdict(list)
    for device in devices:
        hosts[device.host].append(device)
    if len(hosts) > 3:
        return f"{len(devices)} GPUs of {len(hosts)} hosts"
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


def _used(case: Case, members: Sequence[int]) -> str:
    return f", used by {case.names(members)}" if members else ""


def quoted(case: Case, device: Device, state: Gpu, words: str = "") -> Evidence:
    """Quote what a tool said of a GPU, or the values where its words are too many to keep."""
    ranks = case.ranks(device.members)
    return Evidence(
        source=state.source.file,
        line=state.source.line,
        rank=ranks[0] if len(ranks) == 1 else None,
        quote=state.quote or f"{device.name} {state.bus or ''}: {words or values(state)}",
    )


def values(state: Gpu) -> str:
    """Say load and power in short."""
    parts = []
    if state.busy is not None:
        parts.append(f"utilization {state.busy:g} %")
    if state.memory_busy is not None:
        parts.append(f"memory {state.memory_busy:g} %")
    if state.power is not None:
        limit = f" of {state.power_limit:g} W" if state.power_limit else " W"
        parts.append(f"power {state.power:g}{limit}")
    return ", ".join(parts) or "no values"


def _lost(device: Device) -> Told | None:
    for state in device.states:
        if state.lost:
            return 1.0, state, state.trouble or "lost"
    return None


def _unreadable(device: Device) -> Told | None:
    for state in reversed(device.states):
        if state.trouble and not state.lost and state.tool != "dcgmi diag":
            if "reset" in state.trouble.lower():
                continue
            return CLEAR if ";" in state.trouble else INDIRECT, state, state.trouble
    return None


def _reset(device: Device) -> Told | None:
    for state in reversed(device.states):
        if state.recovery is not None:
            return 1.0, state, f"recovery action: {state.recovery}"
        if state.trouble and not state.lost and "reset" in state.trouble.lower():
            return 1.0, state, state.trouble
    return None


def _ecc(device: Device) -> Told | None:
    counts = device.every("ecc_uncorrected")
    if not counts or not counts[-1]:
        return None
    state = device.state_with("ecc_uncorrected")
    if counts[-1] > counts[0]:
        return 1.0, state, f"uncorrectable ECC errors grew from {counts[0]:g} to {counts[-1]:g}"
    return GUESSED, state, f"{counts[-1]:g} uncorrectable ECC errors since the driver was loaded"


def _repair(device: Device) -> Told | None:
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


def _fabric(device: Device) -> Told | None:
    """Find a GPU that is not in the fabric. Without NVSwitch there is none, and nothing said."""
    state = device.now("fabric")
    if state is None or state.lower() in _JOINED or "not supported" in state.lower():
        return None
    return 1.0, device.state_with("fabric"), f"fabric state: {state}"


def _tested(device: Device) -> Told | None:
    for state in reversed(device.states):
        if state.tool == "dcgmi diag" and state.trouble:
            return 1.0, state, state.trouble
    return None


FAULTS: dict[Fault, Callable[[Device], Told | None]] = {
    Fault.LOST: _lost,
    Fault.UNREADABLE: _unreadable,
    Fault.RESET: _reset,
    Fault.ECC: _ecc,
    Fault.REPAIR: _repair,
    Fault.FABRIC: _fabric,
    Fault.TESTED: _tested,
}


_BRAKES = {
    "hw_thermal_slowdown": "too hot (hardware)",
    "hw_power_brake_slowdown": "the power supply's brake",
    "sw_thermal_slowdown": "too hot",
}


class SlowedDown(Record):
    """The clocks of few GPUs are held down by heat or power, of those beside them not."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit; where the stacks show a standstill it is no cause."""
        devices = [d for d in case.job.gpus.devices if d.now("reasons") is not None]
        slow = [d for d in devices if _brakes(d) and max(d.every("busy"), default=100) > AT_REST]
        if not slow or 2 * len(slow) > max(len(devices), 2):
            return ()
        states = bool(waiters_for(case)) and case.graph.progress is False
        if states or (case.job.gpus.by_member and not any(d.members for d in slow)):
            return ()
        words = {d.number: ", ".join(_brakes(d)) for d in slow}
        return (
            hit_on(
                case,
                slow,
                evidence=[
                    quoted(
                        case,
                        d,
                        d.state_with("reasons"),
                        f"clocks held down ({words[d.number]}), SM clock {d.now('sm_clock')} MHz",
                    )
                    for d in slow[:SHOWN]
                ],
                strength=1.0 if case.graph.progress else INCOMPLETE,
                fields={"says": "; ".join(dict.fromkeys(words.values()))},
            ),
        )


def slowed_down() -> SlowedDown:
    """Ask for GPUs whose clocks are held down by heat or power."""
    return SlowedDown()


def _brakes(device: Device) -> list[str]:
    """Give the brakes that every sample shows: one that is on for a moment is everyday."""
    told = [set(reasons) for reasons in device.every("reasons")]
    always = set.intersection(*told) if told else set()
    return [words for name, words in _BRAKES.items() if name in always]


class Shared(Record):
    """Two ranks use one GPU, as their pids or NCCL's own lines say."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit per GPU; surer where another GPU of the host has no rank."""
        gpus, hits = case.job.gpus, []
        if case.graph.progress:
            return ()  # it is allowed there, or harmless
        for device in gpus.devices:
            members = [n for n in device.members if gpus.how[n] < len(HOW) - 1]
            if len(members) < 2 or len({case.member(n).rank for n in members}) < 2:
                continue
            if len({s for n in members if (s := _slice(case, device, n))}) == len(members):
                continue  # each has a MIG device of its own
            free = [d for d in gpus.devices if d.place == device.place and not d.members]
            ranks = case.ranks(members)
            hit = hit_on(
                case,
                [device],
                evidence=[quoted(case, device, device.state_with("processes"))],
                strength=CLEAR if free else INCOMPLETE,
                beside=free[:8],
                fields={
                    "ranks": ranks_in_words(ranks) if ranks else case.names(members),
                    "free": f"; {names(free)} {'has' if len(free) == 1 else 'have'} no rank"
                    if free
                    else "",
                },
            )
            hits.append(hit)
        return tuple(hits)


def shared_by_ranks() -> Shared:
    """Ask for a GPU that two ranks use."""
    return Shared()


def _slice(case: Case, device: Device, member: int) -> str | None:
    pid = case.member(member).pid
    told = device.now("processes") or ()
    return next((process.slice for process in told if process.pid == pid), None)


class HeldByNobody(Record):
    """A GPU holds much memory and no process is on it, while processes of others are listed."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all such GPUs. In a container no processes are listed at all."""
        devices = [d for d in case.job.gpus.devices if d.now("processes") is not None]
        places = {d.place for d in devices if d.pids}
        found = [
            d
            for d in devices
            if d.place in places
            and not d.now("processes")
            and not d.now("mig")
            and (d.now("memory_used") or 0) > max(HELD, 0.02 * (d.now("memory_total") or 0))
        ]
        if not found or case.graph.progress:
            return ()
        held = sum(d.now("memory_used") for d in found) / 1024
        return (
            hit_on(
                case,
                found,
                evidence=[quoted(case, d, d.state_with("memory_used")) for d in found[:SHOWN]],
                fields={"held": f"{held:.0f} GiB"},
            ),
        )


def held_by_nobody() -> HeldByNobody:
    """Ask for memory of a GPU that no process holds."""
    return HeldByNobody()


class TakenExclusively(Record):
    """A GPU takes one process only, or none, and a rank that should use it is not on it."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all such GPUs."""
        found = []
        for device in case.job.gpus.devices:
            mode = str(device.now("compute_mode") or "").lower()
            pids = {case.member(n).pid for n in device.members}
            others = set(device.pids) - pids
            shut_out = bool(device.members) and not pids & set(device.pids)
            if shut_out and (mode == "prohibited" or (mode.startswith("exclusive") and others)):
                taken = f", taken by pid {min(others)}" if others else ""
                words = f"compute mode {device.now('compute_mode')}{taken}"
                found.append((device, (1.0, device.state_with("compute_mode"), words)))
        return hits_on(case, found)


def taken_exclusively() -> TakenExclusively:
    """Ask for a GPU whose compute mode keeps its rank out."""
    return TakenExclusively()


class DriverHangs(Record):
    """A tool that asks the driver did not come back, asleep in the kernel."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all hosts where it was so; the ranks there are where it shows."""
        silent = case.job.of(DriverSilence)
        if not silent:
            return ()
        hosts = {fact.who.host for fact in silent}
        members = tuple(m.id for m in case.job.members if m.host in hosts)
        shown = ", ".join(sorted(host for host in hosts if host))
        return (
            Hit(
                members=members if len(members) < len(case.job.members) else (),
                affected=waiters_for(case),
                names_culprit=False,
                evidence=tuple(
                    Evidence(source=fact.source.file, line=fact.source.line, quote=fact.says)
                    for fact in silent[:SHOWN]
                ),
                fields={"hosts": shown or "the host", "says": silent[0].says},
            ),
        )


def driver_hangs() -> DriverHangs:
    """Ask for hosts where the driver does not answer."""
    return DriverHangs()

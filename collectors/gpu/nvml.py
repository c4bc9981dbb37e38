"""What whyhang's own NVML child printed (``probe.py``): JSON with the values as NVML gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from whyhang.analyzer.facts import (
    Fact,
    Gap,
    Gpu,
    GpuProcess,
    GpuSlice,
    NvLink,
    Record,
    Who,
    replace,
)
from whyhang.analyzer.reading import Document
from whyhang.collectors.gpu import values

START = b'{"nvml":'
TOOL = "nvml"
MAX_BYTES = 64 << 20


class NvmlSlice(Record):
    """One MIG device; memory in bytes."""

    device: int
    instance: str | None = None
    uuid: str | None = None
    memory: int | None = None


class NvmlGpu(Record):
    """The values of one GPU: bytes, milliwatts, MHz, per cent, as NVML has them.

    The memory of its processes is in bytes, too. ``failed`` says for a name what NVML answered
    in the place of a value, where that is trouble.
    """

    index: int
    uuid: str | None = None
    bus: str | None = None
    name: str | None = None
    busy: int | None = None
    memory_busy: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: int | None = None
    power_limit: int | None = None
    sm_clock: int | None = None
    sm_clock_max: int | None = None
    memory_clock: int | None = None
    temperature: int | None = None
    pstate: int | None = None
    compute_mode: int | None = None
    mig: int | None = None
    ecc_uncorrected: int | None = None
    ecc_corrected: int | None = None
    ecc_ever: int | None = None
    remap_pending: int | None = None
    remap_failed: int | None = None
    retire_pending: int | None = None
    recovery: int | None = None
    reasons: int | None = None
    fabric: int | None = None
    fabric_status: int | None = None
    links: tuple[NvLink, ...] | None = None
    slices: tuple[NvmlSlice, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None
    failed: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it for each record


class NvmlLog(Record):
    """Everything that one run of the child printed."""

    nvml: int  # format
    gpus: tuple[NvmlGpu, ...] = ()
    driver: str | None = None
    cuda: str | None = None


_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_RECOVERY = {1: "GPU Reset", 2: "Node Reboot", 3: "Drain P2P", 4: "Drain and Reset"}
_FABRIC = {1: "Not Started", 2: "In Progress", 3: "Completed"}


def _mib(size: float) -> float:
    return size / 2**20


def _watts(power: int) -> float:
    return power / 1000


# How those values are read that are not taken as they are.
_READ: dict[str, Callable[[Any], Any]] = {
    "bus": values.bus_id,
    "memory_used": _mib,
    "memory_total": _mib,
    "power": _watts,
    "power_limit": _watts,
    "pstate": lambda state: f"P{state}" if state <= 15 else None,
    "compute_mode": _MODES.get,
    "mig": bool,
    "remap_pending": bool,
    "remap_failed": bool,
    "retire_pending": bool,
    "recovery": _RECOVERY.get,
    "reasons": values.reasons_of,
    "fabric": _FABRIC.get,
    "slices": lambda slices: tuple(
        GpuSlice(
            device=one.device,
            instance=one.instance,
            uuid=one.uuid,
            memory_used=None if one.memory is None else _mib(one.memory),
        )
        for one in slices
    ),
    "processes": lambda processes: tuple(
        one if one.memory is None else replace(one, memory=_mib(one.memory)) for one in processes
    ),
}


class NvmlReader:
    """Reads the output of the NVML child."""

    name = "NVML"

    def sniff(self, document: Document) -> bool:
        """Return whether it begins as the child's output does."""
        return document.head.startswith(START)

    def owns(self, document: Document) -> bool:
        """Return the same: the child prints nothing else."""
        return self.sniff(document)

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a fact for each GPU."""
        with document.open() as stream:
            data = stream.read(MAX_BYTES)
        try:
            log = msgspec.json.decode(data, type=NvmlLog)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield Gap(
                what=f"reading {document.path} as NVML's values",
                why=f"it is damaged ({str(error)[:120]})",
                cost="the state of the GPUs is not known",
                who=Who(host=document.who.host),
                source=document.source(),
            )
            return
        for gpu in log.gpus:
            yield _fact(document, log, gpu)


def _fact(document: Document, log: NvmlLog, gpu: NvmlGpu) -> Gpu:
    fields = {
        name: _READ[name](value) if name in _READ else value
        for name, value in msgspec.structs.asdict(gpu).items()  # type: ignore[arg-type]
        if value is not None
    }
    failed, status = fields.pop("failed"), fields.pop("fabric_status", 0)
    if status and fields.get("fabric"):
        fields["fabric"] += f", status {status}"
    return Gpu(
        who=Who(host=document.who.host),
        source=document.source(),
        tool=TOOL,
        look=document.look or 0,
        taken_at=document.taken_at,
        driver=log.driver,
        cuda=log.cuda,
        trouble="; ".join(f"{name}: {words}" for name, words in failed.items())[:300] or None,
        lost=any(values.is_lost(words) for words in failed.values()),
        quote=_quote(gpu),
        **fields,
    )


def _quote(gpu: NvmlGpu) -> str:
    """Say the values that decide most often."""
    parts = [f"GPU {gpu.index} {gpu.bus or ''}".strip()]
    if gpu.busy is not None:
        parts.append(f"utilization {gpu.busy} %")
    if gpu.power is not None:
        parts.append(f"power {_watts(gpu.power):.0f} W")
    if gpu.processes is not None:
        parts.append(f"pids {', '.join(str(p.pid) for p in gpu.processes[:8]) or 'none'}")
    parts += [f"{name}: {words}" for name, words in gpu.failed.items()]
    return ", ".join(parts)

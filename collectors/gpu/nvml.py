"""What whyhang's own NVML child printed (``probe.py``): JSON with the values as NVML gives them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from whyhang.analyzer.facts import Fact, Gap, Gpu, GpuProcess, GpuSlice, NvLink, Record, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors.gpu import values

START = b'{"nvml":'
TOOL = "nvml"


class NvmlProcess(Record):
    """A process on a GPU; memory in bytes."""

    pid: int
    memory: int | None = None
    slice: str | None = None


class NvmlLink(Record):
    """One NVLink with the sum of its error counters."""

    number: int
    active: bool | None = None
    errors: int | None = None


class NvmlSlice(Record):
    """One MIG device; memory in bytes."""

    device: int
    instance: str | None = None
    uuid: str | None = None
    memory: int | None = None


class NvmlGpu(Record):
    """The values of one GPU: bytes, milliwatts, MHz, per cent, as NVML has them.

    ``failed`` says for a name what NVML answered in the place of a value, where that is trouble.
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
    links: tuple[NvmlLink, ...] | None = None
    slices: tuple[NvmlSlice, ...] = ()
    processes: tuple[NvmlProcess, ...] | None = None
    failed: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it for each record


class NvmlLog(Record):
    """Everything that one run of the child printed."""

    nvml: int  # format
    gpus: tuple[NvmlGpu, ...] = ()
    driver: str | None = None
    cuda: str | None = None


_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_RECOVERY = {1: "GPU Reset", 2: "Node Reboot", 3: "Drain P2P", 4: "Drain and Reset"}
_FABRIC = {0: None, 1: "Not Started", 2: "In Progress", 3: "Completed"}
_PLAIN = (
    *("index", "uuid", "name", "busy", "memory_busy", "sm_clock", "sm_clock_max", "memory_clock"),
    *("temperature", "ecc_uncorrected", "ecc_corrected", "ecc_ever"),
)


class NvmlReader:
    """Reads the output of the NVML child."""

    name = "NVML"

    def sniff(self, document: Document) -> bool:
        """Look for its first bytes."""
        return document.head.startswith(START)

    def owns(self, document: Document) -> bool:
        """Say that no other reader need look at it."""
        return self.sniff(document)

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a fact for each GPU."""
        with document.open() as stream:
            data = stream.read(64 << 20)
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
    plain = {name: getattr(gpu, name) for name in _PLAIN}
    status = "" if gpu.fabric_status in {None, 0} else f", status {gpu.fabric_status}"
    fabric = _FABRIC.get(gpu.fabric) if gpu.fabric is not None else None
    lost = any(values.is_lost(words) for words in gpu.failed.values())
    return Gpu(
        who=Who(host=document.who.host),
        source=document.source(),
        tool=TOOL,
        look=document.look or 0,
        taken_at=document.taken_at,
        driver=log.driver,
        cuda=log.cuda,
        bus=values.bus_id(gpu.bus),
        memory_used=_mib(gpu.memory_used),
        memory_total=_mib(gpu.memory_total),
        power=_watts(gpu.power),
        power_limit=_watts(gpu.power_limit),
        pstate=None if gpu.pstate is None or gpu.pstate > 15 else f"P{gpu.pstate}",
        compute_mode=_MODES.get(gpu.compute_mode) if gpu.compute_mode is not None else None,
        mig=None if gpu.mig is None else bool(gpu.mig),
        slices=tuple(
            GpuSlice(
                device=part.device,
                instance=part.instance,
                uuid=part.uuid,
                memory_used=_mib(part.memory),
            )
            for part in gpu.slices
        ),
        remap_pending=_flag(gpu.remap_pending),
        remap_failed=_flag(gpu.remap_failed),
        retire_pending=_flag(gpu.retire_pending),
        recovery=_RECOVERY.get(gpu.recovery) if gpu.recovery else None,
        reasons=values.reasons_of(gpu.reasons),
        fabric=None if fabric is None else f"{fabric}{status}",
        links=None
        if gpu.links is None
        else tuple(NvLink(number=k.number, active=k.active, errors=k.errors) for k in gpu.links),
        processes=None
        if gpu.processes is None
        else tuple(
            GpuProcess(pid=p.pid, memory=_mib(p.memory), slice=p.slice) for p in gpu.processes
        ),
        trouble="; ".join(f"{name}: {words}" for name, words in gpu.failed.items())[:300] or None,
        lost=lost,
        quote=_quote(gpu),
        **plain,
    )


def _quote(gpu: NvmlGpu) -> str:
    """Say the values that decide most often."""
    parts = [f"GPU {gpu.index} {gpu.bus or ''}".strip()]
    if gpu.busy is not None:
        parts.append(f"utilization {gpu.busy} %")
    if gpu.power is not None:
        parts.append(f"power {gpu.power / 1000:.0f} W")
    if gpu.processes is not None:
        parts.append(f"pids {', '.join(str(p.pid) for p in gpu.processes[:8]) or 'none'}")
    parts += [f"{name}: {words}" for name, words in gpu.failed.items()]
    return ", ".join(parts)


def _mib(size: int | None) -> float | None:
    return None if size is None else size / 2**20


def _watts(power: int | None) -> float | None:
    return None if power is None else power / 1000


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)

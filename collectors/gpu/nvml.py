"""What whyhang's own NVML child printed (``nvml_child.py``): JSON with NVML's own values."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from whyhang.analyzer.facts import Fact, Gap, Gpu, Record, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors.gpu import values

START = b'{"nvml":'
TOOL = "nvml"
MAX_BYTES = 64 << 20


class _Log(Record):
    """Everything that one run of the child printed.

    The values of a GPU are those of ``Gpu``, in the units of NVML: bytes, milliwatts. ``failed``
    says for a name what NVML answered in the place of a value, where that is trouble.
    """

    nvml: int  # format
    gpus: tuple[dict[str, Any], ...] = ()
    driver: str | None = None
    cuda: str | None = None


_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_RECOVERY = {1: "GPU Reset", 2: "Node Reboot", 3: "Drain P2P", 4: "Drain and Reset"}
_FABRIC = {1: "Not Started", 2: "In Progress", 3: "Completed"}


def _mib(size: float) -> float:
    return size / 2**20


def _watts(power: int) -> float:
    return power / 1000


def _processes(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "memory": _mib(one["memory"])} if one.get("memory") else one for one in listed]


# How those values are read that are not taken as they are.
_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("memory_used", "memory_total"), _mib),
    **dict.fromkeys(("power", "power_limit"), _watts),
    **dict.fromkeys(("mig", "remap_pending", "remap_failed", "retire_pending"), bool),
    "bus": values.bus_id,
    "pstate": lambda state: f"P{state}" if state <= 15 else None,
    "compute_mode": _MODES.get,
    "recovery": _RECOVERY.get,
    "reasons": values.reasons_of,
    "fabric": _FABRIC.get,
    "processes": _processes,
}


class NvmlReader:
    """Reads the output of the NVML child."""

    name = "NVML"

    def sniff(self, document: Document) -> bool:
        """Return whether it begins as the child's output does."""
        return document.head.startswith(START)

    owns = sniff  # nothing in it is for any other reader

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a fact for each GPU."""
        try:
            log = msgspec.json.decode(document.content(MAX_BYTES), type=_Log)
            yield from [_fact(document, log, gpu) for gpu in log.gpus]
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            yield Gap(
                what=f"reading {document.path} as NVML's values",
                why=f"it is damaged ({str(error)[:120]})",
                cost="the state of the GPUs is not known",
                who=Who(host=document.who.host),
                source=document.source(),
            )


def _fact(document: Document, log: _Log, gpu: dict[str, Any]) -> Gpu:
    """Make the fact. Raises what values of another type than NVML's raise."""
    fields = {
        name: _READ[name](value) if name in _READ else value
        for name, value in gpu.items()
        if value is not None
    }
    failed: dict[str, str] = fields.pop("failed", {})
    if fields.get("fabric") and (status := fields.get("fabric_status")):
        fields["fabric"] += f", status {status}"
    fields |= {
        "who": Who(host=document.who.host),
        "source": document.source(),
        "tool": TOOL,
        "look": document.look or 0,
        "taken_at": document.taken_at,
        "driver": log.driver,
        "cuda": log.cuda,
        "trouble": "; ".join(f"{name}: {words}" for name, words in failed.items())[:300] or None,
        "lost": any(map(values.is_lost, failed.values())),
        "quote": _quote(gpu, failed),
    }
    return msgspec.convert(fields, Gpu)


def _quote(gpu: dict[str, Any], failed: dict[str, str]) -> str:
    """Say the values that decide most often."""
    parts = [f"GPU {gpu.get('index')} {gpu.get('bus') or ''}".strip()]
    if gpu.get("busy") is not None:
        parts.append(f"utilization {gpu['busy']} %")
    if gpu.get("power") is not None:
        parts.append(f"power {_watts(gpu['power']):.0f} W")
    if gpu.get("processes") is not None:
        parts.append(f"pids {', '.join(str(p['pid']) for p in gpu['processes'][:8]) or 'none'}")
    return ", ".join([*parts, *(f"{name}: {words}" for name, words in failed.items())])

"""The child that asks NVML, and nothing else: prints one JSON document and ends.

Run as ``python -m whyhang.collectors.gpu.probe``. A driver with a sick GPU may never answer, so
nobody waits for this process longer than the look takes. It ends with ``NO_NVML`` where there
is no library or no driver, so that nvidia-smi may be asked instead. Every value is asked for by
itself: what a board or an older driver does not have is left out.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any

NO_NVML = 3
"""Exit status where NVML cannot be asked at all."""

# nvml.h: answers that only mean that this board, driver or user has no such value.
_PLAIN_ABSENCE = frozenset({2, 3, 4, 6, 7, 13, 21, 22, 25, 26, 27})
_ERRORS = {15: "GPU is lost", 16: "GPU requires reset", 999: "Unknown Error"}
_RECOVERY_FIELD = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
_FABRIC_DONE = 3  # NVML_GPU_FABRIC_STATE_COMPLETED; before, the status says nothing
_NVLINK_COUNTERS = 4  # replay, recovery, CRC flit, CRC data


def main() -> int:
    """Print the state of all GPUs."""
    try:
        import pynvml  # noqa: PLC0415 - its lack is an answer

        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - whatever it is, nvidia-smi is asked next
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return NO_NVML
    log = {
        "nvml": 1,
        "driver": _word(pynvml.nvmlSystemGetDriverVersion),
        "cuda": _cuda(pynvml),
        "gpus": [_gpu(pynvml, index) for index in range(_count(pynvml))],
    }
    sys.stdout.write(json.dumps(log, separators=(",", ":")) + "\n")
    sys.stdout.flush()
    return 0


def _count(nvml: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetCount())
    except Exception:  # noqa: BLE001
        return 0


def _word(ask: Callable[[], object]) -> str | None:
    try:
        said = ask()
    except Exception:  # noqa: BLE001
        return None
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _cuda(nvml: Any) -> str | None:
    try:
        version = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
    except Exception:  # noqa: BLE001
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


def _gpu(nvml: Any, index: int) -> dict[str, Any]:
    """Ask for everything of one GPU."""
    asked = _Asked(nvml)
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:  # noqa: BLE001 - a lost GPU has no handle
        words = _ERRORS.get(getattr(error, "value", 999), str(error))
        return {"index": index, "failed": {"handle": words}}
    found: dict[str, Any] = {"index": index}
    for name, ask in _questions(nvml, handle).items():
        value = asked.ask(name, ask)
        if value is not None:
            found[name] = value
    for names, pair in (
        (("busy", "memory_busy"), asked.ask("utilization", _utilization(nvml, handle))),
        (("memory_used", "memory_total"), asked.ask("memory", _memory(nvml, handle))),
        (("remap_pending", "remap_failed"), asked.ask("remapped rows", _remapped(nvml, handle))),
        (("fabric", "fabric_status"), asked.ask("fabric", _fabric(nvml, handle))),
    ):
        if pair is not None:
            found.update(zip(names, pair, strict=True))
    found["processes"] = asked.ask("processes", lambda: _processes(nvml, handle))
    found["links"] = asked.ask("links", lambda: _links(nvml, handle))
    if found.get("mig"):
        found["slices"] = asked.ask("MIG devices", lambda: _slices(nvml, handle)) or []
        found["processes"] = [*(found["processes"] or []), *_on_slices(nvml, handle)]
    if asked.failed:
        found["failed"] = asked.failed
    return {name: value for name, value in found.items() if value is not None}


class _Asked:
    """Asks, and keeps what NVML answers in the place of a value where that is trouble."""

    def __init__(self, nvml: Any) -> None:
        self._error = nvml.NVMLError
        self.failed: dict[str, str] = {}

    def ask(self, name: str, ask: Callable[[], Any]) -> Any:
        try:
            said = ask()
        except self._error as error:
            code = getattr(error, "value", 999)
            if code not in _PLAIN_ABSENCE:
                self.failed[name] = _ERRORS.get(code, str(error))
            return None
        except Exception:  # noqa: BLE001 - a function that this version does not have
            return None
        return said.decode("utf-8", "replace") if isinstance(said, bytes) else said


def _questions(nvml: Any, handle: Any) -> dict[str, Callable[[], Any]]:
    """List what is asked for with one call that gives one value."""
    return {
        "uuid": lambda: nvml.nvmlDeviceGetUUID(handle),
        "bus": lambda: nvml.nvmlDeviceGetPciInfo(handle).busId,
        "name": lambda: nvml.nvmlDeviceGetName(handle),
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle),
        "power_limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
        "sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, 1),
        "sm_clock_max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, 1),
        "memory_clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, 2),
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, 0),
        "pstate": lambda: nvml.nvmlDeviceGetPerformanceState(handle),
        "compute_mode": lambda: nvml.nvmlDeviceGetComputeMode(handle),
        "mig": lambda: nvml.nvmlDeviceGetMigMode(handle)[0],
        "ecc_uncorrected": lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0),
        "ecc_corrected": lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0),
        "ecc_ever": lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 1),
        "retire_pending": lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle),
        "reasons": lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        "recovery": lambda: _field(nvml, handle, _RECOVERY_FIELD),
    }


def _utilization(nvml: Any, handle: Any) -> Callable[[], Any]:
    def ask() -> tuple[int, int]:
        rates = nvml.nvmlDeviceGetUtilizationRates(handle)
        return rates.gpu, rates.memory

    return ask


def _memory(nvml: Any, handle: Any) -> Callable[[], Any]:
    def ask() -> tuple[int, int]:
        info = nvml.nvmlDeviceGetMemoryInfo(handle)
        return info.used, info.total

    return ask


def _remapped(nvml: Any, handle: Any) -> Callable[[], Any]:
    def ask() -> tuple[int, int]:
        _, _, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
        return int(pending), int(failed)

    return ask


def _fabric(nvml: Any, handle: Any) -> Callable[[], Any]:
    def ask() -> tuple[int, int]:
        import ctypes  # noqa: PLC0415 - pynvml has it loaded, the parent need not

        info = nvml.c_nvmlGpuFabricInfo_t()
        nvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
        return int(info.state), int(info.status) if info.state == _FABRIC_DONE else 0

    return ask


def _field(nvml: Any, handle: Any, number: int) -> int | None:
    (value,) = nvml.nvmlDeviceGetFieldValues(handle, [number])
    return int(value.value.uiVal) if value.nvmlReturn == 0 else None


def _processes(nvml: Any, handle: Any, part: str | None = None) -> list[dict[str, Any]]:
    told = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return [
        {"pid": one.pid, "memory": one.usedGpuMemory, **({"slice": part} if part else {})}
        for one in told
    ]


def _links(nvml: Any, handle: Any) -> list[dict[str, Any]] | None:
    """Ask for the state of each link; the first that is not there ends the list."""
    found: list[dict[str, Any]] = []
    for number in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18)):
        try:
            active = bool(nvml.nvmlDeviceGetNvLinkState(handle, number))
        except nvml.NVMLError:
            break
        counts = _counts(nvml, handle, number) if active else None
        link = {"number": number, "active": active, "errors": counts}
        found.append({name: value for name, value in link.items() if value is not None})
    return found or None


def _counts(nvml: Any, handle: Any, link: int) -> int | None:
    """Add up the counters of errors of a link; NVLink 5 counts elsewhere."""
    try:
        return sum(
            int(nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, counter))
            for counter in range(_NVLINK_COUNTERS)
        )
    except nvml.NVMLError:
        return None


def _mig_handles(nvml: Any, handle: Any) -> list[tuple[int, Any]]:
    asked, get = _Asked(nvml), nvml.nvmlDeviceGetMigDeviceHandleByIndex
    most = int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    handles = ((n, asked.ask("", functools.partial(get, handle, n))) for n in range(most))
    return [(number, part) for number, part in handles if part is not None]


def _instance(nvml: Any, part: Any) -> str:
    return f"{nvml.nvmlDeviceGetGpuInstanceId(part)}/{nvml.nvmlDeviceGetComputeInstanceId(part)}"


def _slices(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    return [
        {
            "device": number,
            "uuid": _word(lambda part=part: nvml.nvmlDeviceGetUUID(part)),  # type: ignore[misc]
            "instance": _word(lambda part=part: _instance(nvml, part)),  # type: ignore[misc]
            "memory": nvml.nvmlDeviceGetMemoryInfo(part).used,
        }
        for number, part in _mig_handles(nvml, handle)
    ]


def _on_slices(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        for _, part in _mig_handles(nvml, handle):
            found += _processes(nvml, part, _instance(nvml, part))
    except nvml.NVMLError:
        return found
    return found


if __name__ == "__main__":
    sys.exit(main())

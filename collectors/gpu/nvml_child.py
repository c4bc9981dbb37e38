"""The child that asks NVML, and nothing else (standard library and ``pynvml`` only).

Run as ``python nvml_child.py``, it prints the state of all GPUs as one JSON document and ends. Run
as ``python nvml_child.py counters [FOLDER]`` (FOLDER is where ``pynvml`` lies), it opens NVML once,
and answers each line that it is sent with one on what the GPUs have done so far; before these comes
an empty one: it is there. A driver with a sick GPU may never answer, so nobody waits for this
process longer than a look takes. It ends with ``NO_NVML`` where there is no library or no driver,
so that nvidia-smi may be asked instead. Every value is asked for by itself: what a board or an
older driver does not have is left out.
"""

import ctypes
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


def main(do: str = "state", *folders: str) -> int:
    """Print the state of all GPUs, or answer with their counters until nobody asks any more."""
    sys.path[:0] = folders
    try:
        import pynvml  # noqa: PLC0415 - its lack is an answer

        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - whatever it is, nvidia-smi is asked next
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return NO_NVML
    if do == "counters":
        return _count(pynvml)
    cuda = _answer(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    count = _answer(pynvml.nvmlDeviceGetCount) or 0
    log = {
        "nvml": 1,
        "driver": _answer(pynvml.nvmlSystemGetDriverVersion),
        "cuda": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        "gpus": [_gpu(pynvml, index) for index in range(count)],
    }
    _print(log)
    return 0


def _count(nvml: Any) -> int:
    """Answer line by line: energy in mJ, its limit in mW, memory traffic in per cent, pids."""
    count, answer = _answer(nvml.nvmlDeviceGetCount) or 0, dict[str, Any]()
    while True:
        _print(answer)
        if not sys.stdin.readline():
            return 0
        gpus = [_answer(nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        answers = [
            {name: _answer(ask, nvml, gpu) for name, ask in _COUNTERS.items()} for gpu in gpus
        ]
        known = ({name: each for name, each in own.items() if each is not None} for own in answers)
        answer = {"gpus": list(known)}


def _print(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _answer(ask: Callable[..., Any], *arguments: Any) -> Any:
    """Return what NVML answers, None if it does not."""
    try:
        return _text(ask(*arguments))
    except Exception:  # noqa: BLE001 - a function that this version does not have, too
        return None


def _text(answer: Any) -> Any:
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def _gpu(nvml: Any, index: int) -> dict[str, Any]:
    """Ask for everything of one GPU.

    ``failed`` keeps what NVML answers in the place of a value, where that is trouble.
    """
    try:
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:  # noqa: BLE001 - a lost GPU has no handle
        words = _ERRORS.get(getattr(error, "value", 999), str(error))
        return {"index": index, "failed": {"handle": words}}
    values: dict[str, Any] = {"index": index}
    failed: dict[str, str] = {}
    for name, question in _QUESTIONS.items():
        if name == "MIG devices" and not values.get("mig"):
            continue
        try:
            answer = question(nvml, gpu)
        except nvml.NVMLError as error:
            code = getattr(error, "value", 999)
            if code not in _PLAIN_ABSENCE:
                failed[name] = _ERRORS.get(code, str(error))
        except Exception:  # noqa: BLE001, S112 - a function that this version does not have
            continue
        else:
            values |= answer if isinstance(answer, dict) else {name: _text(answer)}
    if values.get("mig"):
        values["slices"] = values.get("slices", [])
        values["processes"] = [*values.get("processes", []), *values.pop("on slices", ())]
    if failed:
        values["failed"] = failed
    return {name: value for name, value in values.items() if value is not None}


def _utilization(nvml: Any, gpu: Any) -> dict[str, int]:
    rates = nvml.nvmlDeviceGetUtilizationRates(gpu)
    return {"busy": rates.gpu, "memory_busy": rates.memory}


def _memory(nvml: Any, gpu: Any) -> dict[str, int]:
    info = nvml.nvmlDeviceGetMemoryInfo(gpu)
    return {"memory_used": info.used, "memory_total": info.total}


def _remapped(nvml: Any, gpu: Any) -> dict[str, int]:
    _, _, pending, failed = nvml.nvmlDeviceGetRemappedRows(gpu)
    return {"remap_pending": int(pending), "remap_failed": int(failed)}


def _recovery(nvml: Any, gpu: Any) -> int | None:
    (value,) = nvml.nvmlDeviceGetFieldValues(gpu, [_RECOVERY_FIELD])
    return int(value.value.uiVal) if value.nvmlReturn == 0 else None


def _fabric(nvml: Any, gpu: Any) -> dict[str, int]:
    info = nvml.c_nvmlGpuFabricInfo_t()
    nvml.nvmlDeviceGetGpuFabricInfo(gpu, ctypes.byref(info))
    status = int(info.status) if info.state == _FABRIC_DONE else 0
    return {"fabric": int(info.state), "fabric_status": status}


def _processes(nvml: Any, gpu: Any) -> list[dict[str, Any]]:
    running = nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    return [{"pid": one.pid, "memory": one.usedGpuMemory} for one in running]


def _links(nvml: Any, gpu: Any) -> list[dict[str, Any]] | None:
    """Ask for the state of each link; the first that is not there ends the list."""
    links: list[dict[str, Any]] = []
    for number in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18)):
        try:
            active = bool(nvml.nvmlDeviceGetNvLinkState(gpu, number))
        except nvml.NVMLError:
            break
        links.append({"number": number, "active": active})
        counters = range(_NVLINK_COUNTERS if active else 0)  # NVLink 5 counts elsewhere
        errors = [_answer(nvml.nvmlDeviceGetNvLinkErrorCounter, gpu, number, n) for n in counters]
        if errors and None not in errors:
            links[-1]["errors"] = sum(map(int, errors))
    return links or None


def _slices(nvml: Any, gpu: Any) -> dict[str, Any]:
    """Ask for the MIG devices and the processes on them."""
    slices: list[dict[str, Any]] = []
    processes: list[dict[str, Any]] = []
    for number in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu))):
        device = _answer(nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, number)
        if device is not None:
            slices.append({"device": number, "uuid": _answer(nvml.nvmlDeviceGetUUID, device)})
            processes += _answer(_processes_on, nvml, device) or []
    return {"slices": slices, "on slices": processes}


def _processes_on(nvml: Any, device: Any) -> list[dict[str, Any]]:
    instance = nvml.nvmlDeviceGetGpuInstanceId(device)
    name = f"{instance}/{nvml.nvmlDeviceGetComputeInstanceId(device)}"
    return [{**one, "slice": name} for one in _processes(nvml, device)]


# What is asked, in this order; an answer that is a dict holds several values.
_QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "uuid": lambda nvml, gpu: nvml.nvmlDeviceGetUUID(gpu),
    "bus": lambda nvml, gpu: nvml.nvmlDeviceGetPciInfo(gpu).busId,
    "name": lambda nvml, gpu: nvml.nvmlDeviceGetName(gpu),
    "power": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu),
    "power_limit": lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
    "sm_clock": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, 1),
    "temperature": lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, 0),
    "pstate": lambda nvml, gpu: nvml.nvmlDeviceGetPerformanceState(gpu),
    "compute_mode": lambda nvml, gpu: nvml.nvmlDeviceGetComputeMode(gpu),
    "mig": lambda nvml, gpu: nvml.nvmlDeviceGetMigMode(gpu)[0],
    "ecc_uncorrected": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 0),
    "retire_pending": lambda nvml, gpu: nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu),
    "reasons": lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
    "recovery": _recovery,
    "utilization": _utilization,
    "memory": _memory,
    "remapped rows": _remapped,
    "fabric": _fabric,
    "processes": _processes,
    "links": _links,
    "MIG devices": _slices,
}

_COUNTERS: dict[str, Callable[[Any, Any], Any]] = {
    "pids": lambda nvml, gpu: [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)],
    "energy": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
    "limit": lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
    "traffic": lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).memory,
}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

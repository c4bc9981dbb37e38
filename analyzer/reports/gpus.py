"""The rows of GPUs in a report: only those that decide something, folded where they are alike."""

from collections.abc import Iterable

from whyhang.analyzer.case import Case
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.queries.gpus import FAULTS, gpu_names
from whyhang.analyzer.report import GpuRow

MOST = 64
"""GPUs of one row that are named one by one."""


def gpu_rows(case: Case, chosen: Iterable[int]) -> tuple[GpuRow, ...]:
    """Return a row for all GPUs among ``chosen`` that are in one state, the fewest first."""
    devices = [case.job.gpus.devices[number] for number in sorted(set(chosen))]
    alike: dict[tuple[str, str], list[Device]] = {}
    for device in devices:
        alike.setdefault((_load(device), _trouble(device)), []).append(device)
    rows = [_row(case, own, trouble) for (_, trouble), own in alike.items()]
    return tuple(sorted(rows, key=lambda row: (not row.says, len(row.devices))))


def device_rows(case: Case) -> tuple[GpuRow, ...]:
    """Return a row for all GPUs of the job that are in one state, those with a fault first."""
    return gpu_rows(case, range(len(case.job.gpus.devices)))


def _row(case: Case, devices: list[Device], says: str) -> GpuRow:
    members = [number for device in devices for number in device.members]
    return GpuRow(
        ranks=case.ranks(members),
        name=gpu_names(devices),
        devices=tuple(str(device) for device in devices[:MOST]),
        use=_range([v for d in devices for v in d.every("busy")], " %"),
        power=_range([v for d in devices for v in d.every("power")], " W"),
        says=says,
    )


def _load(device: Device) -> str:
    """Sort GPUs into few kinds of load, so that 98 and 100 % fold into one row."""
    busy = device.every("busy")
    if not busy:
        return ""
    return "idle" if max(busy) <= 5 else "busy" if min(busy) >= 90 else "between"


def _trouble(device: Device) -> str:
    faults = [shown[2] for symptom in FAULTS.values() if (shown := symptom(device)) is not None]
    return "; ".join(dict.fromkeys(faults))


def _range(values: list[float], unit: str) -> str:
    if not values:
        return ""
    low, high = round(min(values)), round(max(values))
    return f"{low}{unit}" if low == high else f"{low}-{high}{unit}"

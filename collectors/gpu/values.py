"""Single values as nvidia-smi writes them: numbers with units, bus ids, words for "not told"."""

from __future__ import annotations

import re

from whyhang.analyzer import lazy_re
from whyhang.collectors.logs.text.clock import time_of

# Said in the place of a value that this board, driver or user does not have; no trouble.
_ABSENT = frozenset(
    {"", "-", "--", "n/a", "[n/a]", "none", "not supported", "[not supported]", "not found"}
    | {"[not found]", "insufficient permissions", "[insufficient permissions]", "not available"}
    | {"not available in wddm driver model", "requested functionality has been deprecated"}
    | {"[requested functionality has been deprecated]", "[deprecated]", "function not found"}
    | {"[function not found]", "undefined", "[no permission]"}
)
# Said where the driver does not get an answer from the GPU.
_TROUBLE = lazy_re.compile(
    r"ERR!|\bunknown error\b|\bis lost\b|requires? reset|reset required|fallen off"
    r"|unable to determine the device handle",
    re.IGNORECASE,
)
_LOST = lazy_re.compile(
    r"\bis lost\b|fallen off|unable to determine the device handle", re.IGNORECASE
)
_NUMBER = lazy_re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z%\N{DEGREE SIGN}/]*)\s*$")
_BUS = lazy_re.compile(
    r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?$"
)
_MIB = {"": 1.0, "b": 1 / 2**20, "kib": 1 / 1024, "kb": 1 / 1024, "mib": 1.0, "mb": 1.0}
_MIB |= {"gib": 1024.0, "gb": 1024.0, "tib": 1024.0**2}


def told(text: str | None) -> str | None:
    """Give the text, or None where it only says that there is no value."""
    if text is None:
        return None
    text = text.strip()
    return None if text.lower() in _ABSENT else text


def is_trouble(text: str) -> bool:
    """Tell whether these words stand where the driver could not read the GPU."""
    return _TROUBLE.search(text) is not None


def is_lost(text: str) -> bool:
    """Tell whether these words mean that the driver no longer reaches the GPU at all."""
    return _LOST.search(text) is not None


def number(text: str | None) -> float | None:
    """Read "70.12 W", "33C", "100 %" or a bare number; the unit is dropped."""
    found = _NUMBER.match(text) if text else None
    return float(found[1]) if found else None


def mebibytes(text: str | None, unit: str = "") -> float | None:
    """Read an amount of memory; ``unit`` is that of the column where the value has none."""
    found = _NUMBER.match(text) if text else None
    if found is None:
        return None
    factor = _MIB.get((found[2] or unit).lower())
    return None if factor is None else float(found[1]) * factor


def yes(text: str | None) -> bool | None:
    """Read Yes/No, Enabled/Disabled, Active/Not Active, 1/0."""
    text = (text or "").strip().lower()
    if text in {"yes", "enabled", "active", "true", "1", "on"}:
        return True
    return False if text in {"no", "disabled", "not active", "false", "0", "off"} else None


def bus_id(text: str | None) -> str | None:
    """Write a PCI address in one way, "0000:1b:00": nvidia-smi has 8 digits of domain, NVRM 4."""
    found = _BUS.match(text.strip()) if text else None
    if found is None:
        return None
    return f"{int(found[1] or '0', 16):04x}:{found[2]}:{found[3]}".lower()


def moment(text: str | None) -> float | None:
    """Read a time of day as these tools write it; local time is taken for UTC."""
    return time_of(text, None) if text else None


REASONS = (
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
)
"""Bits of NVML's clocks event reasons (nvml.h: nvmlClocksEventReason*)."""


def reasons_of(mask: str | int | None) -> tuple[str, ...] | None:
    """Read a bit mask of clocks event reasons."""
    if isinstance(mask, str):
        try:
            mask = int(mask.strip(), 16)
        except ValueError:
            return None
    return None if mask is None else tuple(name for bit, name in REASONS if mask & bit)

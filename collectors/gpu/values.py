"""Single values as GPU tools write them: numbers with units, bus ids, words for "no value"."""

import re

from whyhang.analyzer import toml
from whyhang.analyzer.facts import Record
from whyhang.collectors import limits
from whyhang.collectors.logs.text.clock import time_of


class _Table(Record):
    absent: frozenset[str]
    reasons: tuple[tuple[int, str], ...]
    bytes: dict[str, int]


_TABLE = toml.read(__package__, "values.toml", _Table)
# Printed where the driver does not get an answer from the GPU.
_TROUBLE = limits.compile(
    r"ERR!|\bunknown error\b|\bis lost\b|requires? reset|reset required|fallen off"
    r"|unable to determine the device handle",
    re.IGNORECASE,
)
_LOST = limits.compile(
    r"\bis lost\b|fallen off|unable to determine the device handle", re.IGNORECASE
)
_NUMBER = limits.compile(r"(-?\d++(?:\.\d++)?)\s*+([A-Za-z%\N{DEGREE SIGN}/]*+)$")
_BUS = limits.compile(
    r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?$"
)


def present(text: str | None) -> str | None:
    """Return the text, or None where it only says that there is no value."""
    text = (text or "").strip()
    return None if text.lower() in _TABLE.absent else text


def is_trouble(text: str) -> bool:
    """Return whether these words stand where the driver could not read the GPU."""
    return _TROUBLE.search(text) is not None


def is_lost(text: str) -> bool:
    """Return whether these words mean that the driver no longer reaches the GPU at all."""
    return _LOST.search(text) is not None


def number(text: str | None) -> float | None:
    """Read "70.12 W", "33C", "100 %" or a bare number; the unit is dropped."""
    match = _NUMBER.match(text.strip()) if text else None
    return float(match[1]) if match else None


def mebibytes(text: str | None, unit: str = "") -> float | None:
    """Read an amount of memory; ``unit`` is that of the column where the value has none."""
    match = _NUMBER.match(text.strip()) if text else None
    if match is None:
        return None
    size = _TABLE.bytes.get((match[2] or unit).lower())
    return None if size is None else float(match[1]) * size / 2**20


def yes(text: str | None) -> bool | None:
    """Read Yes/No, Enabled/Disabled, Active/Not Active, 1/0."""
    text = (text or "").strip().lower()
    if text in {"yes", "enabled", "active", "true", "1", "on"}:
        return True
    return False if text in {"no", "disabled", "not active", "false", "0", "off"} else None


def bus_id(text: str | None) -> str | None:
    """Write a PCI address in one way, "0000:1b:00": nvidia-smi has 8 digits of domain, NVRM 4."""
    match = _BUS.match(text.strip()) if text else None
    if match is None:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}".lower()


def moment(text: str | None) -> float | None:
    """Read a time of day as these tools write it; local time is taken for UTC."""
    return time_of(text, None) if text else None


def reasons_of(mask: str | int | None) -> tuple[str, ...] | None:
    """Read a bit mask of clocks event reasons."""
    if isinstance(mask, str):
        try:
            mask = int(mask.strip(), 16)
        except ValueError:
            return None
    return None if mask is None else tuple(name for bit, name in _TABLE.reasons if mask & bit)

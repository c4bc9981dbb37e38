"""What each tool calls a value, and how it is read: the one table from names to ``Gpu`` fields.

Three families of names mean the same: the tags of ``nvidia-smi -q -x``, the labels of
``nvidia-smi -q`` (lower case, blanks as underscores) and the columns of ``--query-gpu``. The
names are those of drivers 384 to 610; drivers rename without notice, so each name is tried
(clocks_throttle_reasons became clocks_event_reasons in 535, power_readings gpu_power_readings
in 535, sram_uncorrectable was split in 555).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from whyhang.analyzer.facts import Gpu, GpuProcess, Source, Who
from whyhang.collectors.gpu import values

Tree: TypeAlias = "dict[str, str | Tree]"

# field: the paths of the XML and of the query text (a slash goes one level in).
_PATHS: dict[str, tuple[str, ...]] = {
    "uuid": ("uuid", "gpu_uuid"),
    "bus": ("pci/pci_bus_id", "pci/bus_id"),
    "name": ("product_name",),
    "index": ("module_index",),  # of our own NVML child; nvidia-smi counts in order of printing
    "busy": ("utilization/gpu_util", "utilization/gpu"),
    "memory_busy": ("utilization/memory_util", "utilization/memory"),
    "memory_used": ("fb_memory_usage/used", "memory_usage/used"),
    "memory_total": ("fb_memory_usage/total", "memory_usage/total"),
    "power": (
        *("gpu_power_readings/power_draw", "power_readings/power_draw"),
        *("gpu_power_readings/average_power_draw", "gpu_power_readings/instant_power_draw"),
        "gpu_power_readings/instantaneous_power_draw",
    ),
    "power_limit": (
        *("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"),
        *("power_readings/current_power_limit", "power_readings/power_limit"),
    ),
    "sm_clock": ("clocks/sm_clock", "clocks/sm"),
    "sm_clock_max": ("max_clocks/sm_clock", "max_clocks/sm"),
    "memory_clock": ("clocks/mem_clock", "clocks/memory"),
    "temperature": ("temperature/gpu_temp", "temperature/gpu_current_temp", "temperature/gpu"),
    "pstate": ("performance_state",),
    "compute_mode": ("compute_mode",),
    "mig": ("mig_mode/current_mig", "mig_mode/current"),
    "ecc_uncorrected": (
        "ecc_errors/volatile/double_bit/total",
        *(
            f"ecc_errors/volatile/{kind}"
            for kind in (
                *("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded"),
                *("sram_uncorrectable_sec-ded", "dram_uncorrectable"),
            )
        ),
    ),
    "ecc_corrected": (
        "ecc_errors/volatile/single_bit/total",
        "ecc_errors/volatile/sram_correctable",
        "ecc_errors/volatile/dram_correctable",
    ),
    "ecc_ever": (
        "ecc_errors/aggregate/double_bit/total",
        *(
            f"ecc_errors/aggregate/{kind}"
            for kind in (
                *("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded"),
                *("sram_uncorrectable_sec-ded", "dram_uncorrectable"),
            )
        ),
    ),
    "remap_pending": ("remapped_rows/remapped_row_pending", "remapped_rows/pending"),
    "remap_failed": (
        "remapped_rows/remapped_row_failure",
        "remapped_rows/remapping_failure_occurred",
    ),
    "retire_pending": (
        "retired_pages/pending_retirement",
        "retired_pages/pending_blacklist",
        "retired_pages/pending_page_blacklist",
        "retired_pages/pending",
    ),
    "recovery": ("gpu_recovery_action",),
    "reset_required": ("gpu_reset_status/reset_required",),
    "drain_recommended": ("gpu_reset_status/drain_and_reset_recommended",),
    "fabric": ("fabric/state",),
    "fabric_status": ("fabric/status",),
}
_COLUMNS: dict[str, tuple[str, ...]] = {
    "index": ("index", "gpu_index"),
    "uuid": ("uuid", "gpu_uuid"),
    "bus": ("pci.bus_id", "gpu_bus_id"),
    "name": ("name", "gpu_name"),
    "driver": ("driver_version",),
    "busy": ("utilization.gpu",),
    "memory_busy": ("utilization.memory",),
    "memory_used": ("memory.used",),
    "memory_total": ("memory.total",),
    "power": ("power.draw", "power.draw.average", "power.draw.instant"),
    "power_limit": ("enforced.power.limit", "power.limit"),
    "sm_clock": ("clocks.current.sm", "clocks.sm"),
    "sm_clock_max": ("clocks.max.sm",),
    "memory_clock": ("clocks.current.memory", "clocks.mem"),
    "temperature": ("temperature.gpu",),
    "pstate": ("pstate",),
    "compute_mode": ("compute_mode",),
    "mig": ("mig.mode.current",),
    "ecc_uncorrected": ("ecc.errors.uncorrected.volatile.total",),
    "ecc_corrected": ("ecc.errors.corrected.volatile.total",),
    "ecc_ever": ("ecc.errors.uncorrected.aggregate.total",),
    "remap_pending": ("remapped_rows.pending",),
    "remap_failed": ("remapped_rows.failure",),
    "retire_pending": ("retired_pages.pending",),
    "recovery": ("gpu_recovery_action",),
    "reasons": ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
    "reset_required": ("reset_status.reset_required",),
    "fabric": ("fabric.state",),
    "fabric_status": ("fabric.status",),
}
COLUMNS = {column: field for field, columns in _COLUMNS.items() for column in columns}
_REASON_SECTIONS = ("clocks_event_reasons", "clocks_throttle_reasons")
_REASON_COLUMNS = tuple(f"{section}." for section in _REASON_SECTIONS)
# The tags carry the section's name once more; the query text calls the idle reason "Idle".
_REASON_TAGS = ("clocks_event_reason_", "clocks_throttle_reason_")
_REASON_NAMES = {"idle": "gpu_idle"}

_NUMBERS = frozenset(
    {"busy", "memory_busy", "power", "power_limit", "sm_clock", "sm_clock_max", "memory_clock"}
    | {"temperature"}
)
_SUMS = frozenset({"ecc_uncorrected", "ecc_corrected", "ecc_ever"})
_MEMORY = frozenset({"memory_used", "memory_total"})
_FLAGS = frozenset({"mig", "remap_pending", "remap_failed", "retire_pending"})
_FINE = frozenset({"completed", "success"})


def _tree() -> Tree:
    root: Tree = {}
    for field, paths in _PATHS.items():
        for path in paths:
            *sections, last = path.split("/")
            level: Any = root
            for section in sections:
                level = level.setdefault(section, {})
            level[last] = field
    for section in _REASON_SECTIONS:
        root[section] = {}  # every name below it is a reason
    return root


TREE = _tree()
"""The wanted names, level by level: a section is a dict, a value the name of its field."""


class Draft:
    """The values of one GPU while they are read."""

    def __init__(self, **known: Any) -> None:
        self.fields: dict[str, Any] = known
        self.processes: list[GpuProcess] | None = None
        self.troubled: list[str] = []  # the values that are troubles, as "name: ERR!"

    def put(self, field: str, text: str | None, *, name: str = "", unit: str = "") -> None:
        """Take a value in the words of the tool."""
        text = values.told(text)
        if text is None:
            return
        if not text[0].isdigit() and values.is_trouble(text):
            self.trouble(f"{name}: {text}" if name else text, lost=values.is_lost(text))
            return
        value = self._value(field, text, unit)
        if value is None:
            return
        if field in _SUMS:
            value += self.fields.get(field) or 0
        elif field in self.fields:
            return  # the first name that tells something counts
        self.fields[field] = value

    def trouble(self, words: str, *, lost: bool = False) -> None:
        """Note what the tool says in the place of a value."""
        self.troubled.append(words)
        if lost:
            self.fields["lost"] = True

    def reason(self, name: str, text: str | None) -> None:
        """Take one clocks event reason, given as Active or Not Active."""
        active = values.yes(text)
        if active is None:
            return
        for prefix in _REASON_TAGS:
            name = name.removeprefix(prefix)
        name = _REASON_NAMES.get(name, name)
        known: tuple[str, ...] = self.fields.get("reasons") or ()
        self.fields["reasons"] = (*known, name) if active and name not in known else known

    def _value(self, field: str, text: str, unit: str) -> Any:
        if field in _NUMBERS or field in _SUMS:
            return values.number(text)
        if field in _MEMORY:
            return values.mebibytes(text, unit)
        if field in _FLAGS:
            return values.yes(text)
        if field == "bus":
            return values.bus_id(text)
        if field == "index":
            return int(text) if text.isdecimal() else None
        if field == "reasons":
            return values.reasons_of(text)
        return text

    def finish(self, who: Who, source: Source, tool: str, quote: str = "") -> Gpu:
        """Make the fact."""
        fields = dict(self.fields)
        self._settle_recovery(fields)
        status = fields.pop("fabric_status", None)
        state = fields.get("fabric")
        if state is not None and status is not None and status.lower() not in _FINE:
            fields["fabric"] = f"{state}, {status}"
        if fields.get("mig") and fields.get("busy") is None:
            fields.pop("memory_busy", None)
        return Gpu(
            who=who,
            source=source,
            tool=tool,
            processes=None if self.processes is None else tuple(self.processes),
            trouble="; ".join(dict.fromkeys(self.troubled))[:300] or None,
            quote=quote,
            **fields,
        )

    @staticmethod
    def _settle_recovery(fields: dict[str, Any]) -> None:
        """Join the older flags with the newer action (Reset, Reboot, Drain P2P, …)."""
        reset = values.yes(fields.pop("reset_required", None))
        drain = values.yes(fields.pop("drain_recommended", None))
        if fields.get("recovery") is None and (reset or drain):
            fields["recovery"] = "Reset" if reset else "Drain and Reset"
        if str(fields.get("recovery")).lower() in {"none", "0", "no"}:
            fields.pop("recovery", None)


def column(draft: Draft, name: str, text: str, unit: str = "") -> bool:
    """Take a value under its column of ``--query-gpu``; tell whether the column is known."""
    field = COLUMNS.get(name)
    if field is not None:
        draft.put(field, text, name=name, unit=unit)
        return True
    for prefix in _REASON_COLUMNS:
        if name.startswith(prefix):
            draft.reason(name.removeprefix(prefix), text)
            return True
    return False

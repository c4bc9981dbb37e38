"""What each tool calls a value, and how it is read: the one table from names to ``Gpu`` fields.

Three families of names mean the same: the tags of ``nvidia-smi -q -x``, the labels of
``nvidia-smi -q`` (lower case, blanks as underscores) and the columns of ``--query-gpu``. The
names are those of drivers 384 to 610; drivers rename without notice, so each name is tried
(clocks_throttle_reasons became clocks_event_reasons in 535, power_readings gpu_power_readings
in 535, sram_uncorrectable was split in 555).
"""

from collections.abc import Callable
from typing import Any

from whyhang.analyzer.facts import Gpu, GpuProcess, GpuSlice, NvLink, Source, Who, replace
from whyhang.collectors.gpu import values

_UNCORRECTED = (
    *("double_bit/total", "sram_uncorrectable", "sram_uncorrectable_parity"),
    *("sram_uncorrectable_secded", "sram_uncorrectable_sec-ded", "dram_uncorrectable"),
)
_CORRECTED = ("single_bit/total", "sram_correctable", "dram_correctable")

# field: what it is called; a slash goes one level into the XML and the query text.
_NAMES_OF = {
    "index": "index gpu_index",
    "uuid": "uuid gpu_uuid",
    "bus": "pci/pci_bus_id pci/bus_id pci.bus_id gpu_bus_id",
    "name": "product_name name gpu_name",
    "driver": "driver_version",
    "busy": "utilization/gpu_util utilization/gpu utilization.gpu",
    "memory_busy": "utilization/memory_util utilization/memory utilization.memory",
    "memory_used": "fb_memory_usage/used memory_usage/used memory.used",
    "memory_total": "fb_memory_usage/total memory_usage/total memory.total",
    "power": "gpu_power_readings/power_draw power_readings/power_draw"
    " gpu_power_readings/average_power_draw gpu_power_readings/instant_power_draw"
    " gpu_power_readings/instantaneous_power_draw"
    " power.draw power.draw.average power.draw.instant",
    "power_limit": "gpu_power_readings/current_power_limit power_readings/enforced_power_limit"
    " power_readings/current_power_limit power_readings/power_limit"
    " enforced.power.limit power.limit",
    "sm_clock": "clocks/sm_clock clocks/sm clocks.current.sm clocks.sm",
    "sm_clock_max": "max_clocks/sm_clock max_clocks/sm clocks.max.sm",
    "memory_clock": "clocks/mem_clock clocks/memory clocks.current.memory clocks.mem",
    "temperature": "temperature/gpu_temp temperature/gpu_current_temp temperature/gpu"
    " temperature.gpu",
    "pstate": "performance_state pstate",
    "compute_mode": "compute_mode",
    "mig": "mig_mode/current_mig mig_mode/current mig.mode.current",
    "ecc_uncorrected": " ".join(f"ecc_errors/volatile/{kind}" for kind in _UNCORRECTED)
    + " ecc.errors.uncorrected.volatile.total",
    "ecc_corrected": " ".join(f"ecc_errors/volatile/{kind}" for kind in _CORRECTED)
    + " ecc.errors.corrected.volatile.total",
    "ecc_ever": " ".join(f"ecc_errors/aggregate/{kind}" for kind in _UNCORRECTED)
    + " ecc.errors.uncorrected.aggregate.total",
    "remap_pending": "remapped_rows/remapped_row_pending remapped_rows/pending"
    " remapped_rows.pending",
    "remap_failed": "remapped_rows/remapped_row_failure remapped_rows/remapping_failure_occurred"
    " remapped_rows.failure",
    "retire_pending": "retired_pages/pending_retirement retired_pages/pending_blacklist"
    " retired_pages/pending_page_blacklist retired_pages/pending retired_pages.pending",
    "recovery": "gpu_recovery_action",
    "reasons": "clocks_event_reasons.active clocks_throttle_reasons.active",
    "reset_required": "gpu_reset_status/reset_required reset_status.reset_required",
    "drain_recommended": "gpu_reset_status/drain_and_reset_recommended",
    "fabric": "fabric/state fabric.state",
    "fabric_status": "fabric/status fabric.status",
}
FIELDS = {name: field for field, names in _NAMES_OF.items() for name in names.split()}
"""The field of each name: a path of the XML or the query text, or a column."""

SECTIONS = frozenset(
    path[:end] for path in FIELDS for end, letter in enumerate(path) if letter == "/"
)
"""The paths that have wanted values below them."""

REASON_SECTIONS = ("clocks_event_reasons", "clocks_throttle_reasons")
"""Sections in which every name is a reason; of columns, what stands before the dot."""

# The tags carry the section's name once more; the query text calls the idle reason "Idle".
_REASON_TAGS = ("clocks_event_reason_", "clocks_throttle_reason_")
_REASON_NAMES = {"idle": "gpu_idle"}

_SUMS = ("ecc_uncorrected", "ecc_corrected", "ecc_ever")
_READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_SUMS, values.number),
    **dict.fromkeys(("busy", "memory_busy", "power", "power_limit"), values.number),
    **dict.fromkeys(("sm_clock", "sm_clock_max", "memory_clock"), values.number),
    **dict.fromkeys(("mig", "remap_pending", "remap_failed", "retire_pending"), values.yes),
    "temperature": values.number,
    "bus": values.bus_id,
    "index": values.integer,
    "reasons": values.reasons_of,
}
_MEMORY = frozenset({"memory_used", "memory_total"})
_FINE = frozenset({"completed", "success"})


class Draft:
    """The values of one GPU in one print, while it is read.

    ``line`` is the line of the file that the fact cites, ``quote`` what is cited. ``host`` and
    ``taken_at`` are what the print itself tells.
    """

    def __init__(self, tool: str, line: int | None, quote: str = "", **fields: Any) -> None:
        self.tool = tool
        self.line = line
        self.quote = quote
        self.host: str | None = None
        self.taken_at: float | None = None
        self.fields: dict[str, Any] = fields
        self.slices: list[GpuSlice] = []
        self.links: dict[int, NvLink] = {}
        self.processes: list[GpuProcess] | None = None
        self._troubles: list[str] = []  # the values that are troubles, as "name: ERR!"

    def put(self, field: str, text: str | None, *, name: str = "", unit: str = "") -> None:
        """Take a value in the words of the tool; ``name`` is what the tool calls it."""
        text = values.present(text)
        if text is None:
            return
        if not text[0].isdigit() and values.is_trouble(text):
            self.trouble(f"{name}: {text}" if name else text, lost=values.is_lost(text))
            return
        if field in _MEMORY:
            value: Any = values.mebibytes(text, unit)
        else:
            value = _READ.get(field, str)(text)
        if value is None:
            return
        if field in _SUMS:
            value += self.fields.get(field) or 0
        elif self.fields.get(field) is not None:
            return  # the first name that has a value counts
        self.fields[field] = value

    def put_column(self, name: str, text: str, unit: str = "") -> None:
        """Take a value under its column of ``--query-gpu``, if it is a known one."""
        section, _, reason = name.partition(".")
        if name in FIELDS:
            self.put(FIELDS[name], text, name=name, unit=unit)
        elif section in REASON_SECTIONS:
            self.put_reason(reason, text)

    def put_reason(self, name: str, text: str | None) -> None:
        """Take one clocks event reason, given as Active or Not Active."""
        active = values.yes(text)
        if active is None:
            return
        for prefix in _REASON_TAGS:
            name = name.removeprefix(prefix)
        name = _REASON_NAMES.get(name, name)
        known: tuple[str, ...] = self.fields.get("reasons") or ()
        self.fields["reasons"] = (*known, name) if active and name not in known else known

    def trouble(self, words: str, *, lost: bool = False) -> None:
        """Note what the tool says in the place of a value."""
        self._troubles.append(words)
        if lost:
            self.fields["lost"] = True

    def put_link(
        self, number: int, *, active: bool | None = None, errors: int | None = None
    ) -> None:
        """Take the state of a link, or add to its errors."""
        link = self.links.setdefault(number, NvLink(number=number))
        if active is not None:
            link = replace(link, active=active)
        if errors is not None:
            link = replace(link, errors=(link.errors or 0) + errors)
        self.links[number] = link

    def lists_processes(self) -> None:
        """Note that the tool lists the processes of this GPU, be it none."""
        self.processes = self.processes or []

    def add_process(
        self,
        pid: str | None,
        name: str | None,
        memory: str | None,
        *,
        instance: tuple[str | None, str | None] = (None, None),
        kind: str | None = "C",
    ) -> None:
        """Add a process in the words of the tool; ``instance`` is its GPU and compute instance."""
        self.lists_processes()
        number = values.integer(pid)
        if number is not None and self.processes is not None:
            self.processes.append(
                GpuProcess(
                    pid=number,
                    name=(values.present(name) or "")[:200],
                    memory=values.mebibytes(memory),
                    slice=slice_name(*instance),
                    graphics=(kind or "").strip() == "G",
                )
            )

    def fact(self, who: Who, source: Source, look: int, taken_at: float | None) -> Gpu:
        """Make the fact."""
        fields = dict(self.fields)
        _settle_recovery(fields)
        status = fields.pop("fabric_status", None)
        state = fields.get("fabric")
        if state is not None and status is not None and status.lower() not in _FINE:
            fields["fabric"] = f"{state}, {status}"
        if fields.get("mig") and fields.get("busy") is None:
            fields.pop("memory_busy", None)
        return Gpu(
            who=who,
            source=source,
            tool=self.tool,
            look=look,
            taken_at=taken_at,
            slices=tuple(self.slices),
            links=tuple(self.links.values()) or None,
            processes=None if self.processes is None else tuple(self.processes),
            trouble="; ".join(dict.fromkeys(self._troubles))[:300] or None,
            quote=self.quote,
            **fields,
        )


def slice_name(gpu: str | None, compute: str | None) -> str | None:
    """Name a MIG instance by its numbers of GPU and compute instance: "7/0"."""
    gpu, compute = values.present(gpu), values.present(compute)
    return None if gpu is None else f"{gpu}/{compute or 0}"


def _settle_recovery(fields: dict[str, Any]) -> None:
    """Join the older flags with the newer action (Reset, Reboot, Drain P2P, …)."""
    reset = values.yes(fields.pop("reset_required", None))
    drain = values.yes(fields.pop("drain_recommended", None))
    if fields.get("recovery") is None and (reset or drain):
        fields["recovery"] = "Reset" if reset else "Drain and Reset"
    if str(fields.get("recovery")).lower() in {"none", "0", "no"}:
        fields.pop("recovery", None)

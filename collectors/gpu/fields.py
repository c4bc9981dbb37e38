"""The values of one GPU while a print is read; ``fields.toml`` says what each tool calls them."""

from collections.abc import Callable
from typing import Any

from whyhang.analyzer import toml
from whyhang.analyzer.facts import Gpu, GpuProcess, GpuSlice, NvLink, Record, Who, replace, whole
from whyhang.analyzer.reading import Document
from whyhang.collectors.gpu import values


class _Field(Record):
    """How the values of a field are read, and what tools call it."""

    kind: str
    names: tuple[str, ...]


_TABLE = toml.read(__package__, "fields.toml", dict[str, _Field])
FIELDS = {name: field for field, each in _TABLE.items() for name in each.names}
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

_READ: dict[str, Callable[[str], Any]] = {
    "number": values.number,
    "sum": values.number,
    "whole": whole,
    "yes": values.yes,
    "bus": values.bus_id,
    "reasons": values.reasons_of,
    "text": str,
}
"""How a text is read, by the kind of its field; memory has a unit besides."""

_FINE = frozenset({"completed", "success"})


class Draft:
    """The values of one GPU in one print, while it is read.

    ``line`` is the line of the file that the fact cites, ``quote`` what is cited. ``taken_at`` is
    what the print itself tells.
    """

    def __init__(self, tool: str, line: int | None, quote: str = "", **fields: Any) -> None:
        self.tool = tool
        self.line = line
        self.quote = quote
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
        if not text[0].isdigit() and self.takes_trouble(text, name):
            return
        kind = _TABLE[field].kind
        value: Any = values.mebibytes(text, unit) if kind == "memory" else _READ[kind](text)
        if value is None:
            return
        if kind == "sum":
            value += self.fields.get(field) or 0
        elif self.fields.get(field) is not None:
            return  # the first name that has a value counts
        self.fields[field] = value

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

    def trouble(self, words: str) -> None:
        """Note what the tool says in the place of a value."""
        self._troubles.append(words)

    def takes_trouble(self, text: str, name: str = "") -> bool:
        """Note a text, in the place of a value of that name, where it tells of trouble."""
        if not values.is_trouble(text):
            return False
        self.trouble(f"{name}: {text}" if name else text)
        if values.is_lost(text):
            self.fields["lost"] = True
        return True

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
        number = whole(pid)
        gpu, compute = map(values.present, instance)
        if number is not None and self.processes is not None:
            self.processes.append(
                GpuProcess(
                    pid=number,
                    name=(values.present(name) or "")[:200],
                    memory=values.mebibytes(memory),
                    slice=None if gpu is None else f"{gpu}/{compute or 0}",
                    graphics=(kind or "").strip() == "G",
                )
            )

    def fact(self, document: Document, host: str | None, look: int) -> Gpu:
        """Make the fact. The look and the time that the document's bundle tells count for more."""
        fields = dict(self.fields)
        reset = values.yes(fields.pop("reset_required", None))  # older flags
        drain = values.yes(fields.pop("drain_recommended", None))
        if fields.get("recovery") is None and (reset or drain):
            fields["recovery"] = "Reset" if reset else "Drain and Reset"
        if str(fields.get("recovery")).lower() in {"none", "0", "no"}:
            fields.pop("recovery", None)
        status = fields.pop("fabric_status", None)
        state = fields.get("fabric")
        if state is not None and status is not None and status.lower() not in _FINE:
            fields["fabric"] = f"{state}, {status}"
        if fields.get("mig") and fields.get("busy") is None:
            fields.pop("memory_busy", None)
        return Gpu(
            who=Who(host=host),
            source=document.source(self.line),
            tool=self.tool,
            look=look if document.look is None else document.look,
            taken_at=self.taken_at if document.taken_at is None else document.taken_at,
            slices=tuple(self.slices),
            links=tuple(self.links.values()) or None,
            processes=None if self.processes is None else tuple(self.processes),
            trouble="; ".join(dict.fromkeys(self._troubles))[:300] or None,
            quote=self.quote,
            **fields,
        )

"""How far each process came in setting NCCL up: the last of its INFO lines that marks a phase.

The order is that of NCCL 2.7 to 2.30 (``init.cc``, ``bootstrap.cc``, ``transport.cc``). What a
process does next, after the line it printed last, is what it waits in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whyhang.analyzer.facts import Fact, NcclPhase, NcclSetup, Setting, Source, Who
from whyhang.collectors.logs.found import FileView, Found, Handler

if TYPE_CHECKING:
    import regex

INTERFACE = r"NCCL INFO Bootstrap ?: Using (?P<interface>[\w.-]+):(?P<address>\S+?)(?:<\d+>)?\s*$"
NETWORK = r"NCCL INFO (?:Using network|NET/\w+ ?: Using) (?P<network>\S+)"
STARTED = r"NCCL INFO .{0,200}- Init START"
ARRIVED = (
    r"NCCL INFO (?:Bootstrap timings|MNNVL busId|NVLS multicast support|cudaDriverVersion"
    r"|Setting affinity for GPU|comm \S+ rank \d+ n[Rr]anks \d+ nNodes \d+ )"
)
PLANNED = r"NCCL INFO (?:Channel \d+/\d+ : +\d+ +\d+|Trees \[|\d+ coll channels)"
CONNECTING = (
    r"NCCL INFO Channel \d+/\d+ : (?P<pair>\d+\[\w+\] -> \d+\[\w+\]).{0,40} via (?P<via>\S+)"
)
MULTICAST = r"NCCL INFO (?P<via>NVLS) (?:Bind|Creating|Created)"
CONNECTED = r"NCCL INFO Connected all (?:rings|trees)"
COMPLETE = r"NCCL INFO .{0,200}- Init COMPLETE"

PHASES: tuple[tuple[str, NcclPhase], ...] = (
    (INTERFACE, NcclPhase.INTERFACE),
    (NETWORK, NcclPhase.NETWORK),
    (STARTED, NcclPhase.BOOTSTRAP),
    (ARRIVED, NcclPhase.TOPOLOGY),
    (PLANNED, NcclPhase.CHANNELS),
    (CONNECTING, NcclPhase.CONNECTING),
    (MULTICAST, NcclPhase.CONNECTING),
    (CONNECTED, NcclPhase.CONNECTED),
    (COMPLETE, NcclPhase.COMPLETE),
)
"""Which line begins which phase, in order."""

MAX_PROCESSES = 100_000


class NcclStartReader:
    """Collects the furthest phase of each process in its first communicator."""

    def __init__(self, file: FileView) -> None:
        self._file = file
        self._furthest: dict[tuple[str | None, int | None, int | None], _Stage] = {}

    def watches(self) -> dict[str, Handler]:
        """Give the patterns to look for, and what to call with each line found."""
        return {pattern: self._handler(phase) for pattern, phase in PHASES}

    def _handler(self, phase: NcclPhase) -> Handler:
        def note(found: Found, match: regex.Match[str]) -> None:
            self._note(phase, found, match)

        return note

    def _note(self, phase: NcclPhase, found: Found, match: regex.Match[str]) -> None:
        key = (found.who.host, found.who.pid, found.who.rank)
        stage = self._furthest.get(key)
        if stage is None:
            if len(self._furthest) >= MAX_PROCESSES:
                return
            stage = self._furthest[key] = _Stage(found.who)
        stage.told |= {k: v for k, v in match.groupdict().items() if v}
        if stage.source is None or phase >= stage.phase:
            stage.phase, stage.text, stage.source = phase, found.text, found.source

    def facts(self) -> Iterator[Fact]:
        """Give the phase of each process, and the family of its address."""
        for stage in self._furthest.values():
            if stage.source is None:
                continue
            who = self._file.resolve(stage.who)
            address = stage.told.get("address", "")
            yield NcclSetup(
                phase=stage.phase,
                text=stage.text,
                transport=stage.told.get("via", ""),
                interface=stage.told.get("interface", ""),
                address=address,
                who=who,
                source=stage.source,
            )
            if address:
                family = "IPv6" if ":" in address else "IPv4"
                yield Setting(name="address-family", value=family, who=who, source=stage.source)


class _Stage:
    """Where one process stands."""

    def __init__(self, who: Who) -> None:
        self.who = who
        self.phase = NcclPhase.INTERFACE
        self.text = ""
        self.source: Source | None = None
        self.told: dict[str, str] = {}

"""How far each process came in setting NCCL up: the last of its INFO lines that marks a phase.

The order is that of NCCL 2.7 to 2.30 (``init.cc``, ``bootstrap.cc``, ``transport.cc``). What a
process does next, after the line it printed last, is what it waits in.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import regex

from whyhang.analyzer import toml
from whyhang.analyzer.facts import (
    Address,
    Fact,
    NcclPhase,
    NcclSetup,
    NetChannel,
    OwnAddress,
    Record,
    Setting,
    Source,
    Who,
    replace,
)
from whyhang.collectors.logs.engine.byte_blocks import LONGEST, Block
from whyhang.collectors.logs.engine.matching import Match, last_of_each
from whyhang.collectors.logs.lines.line_reader import (
    FoundLine,
    LineReader,
    LogFile,
    wants,
    wants_block,
)


class _Table(Record):
    phases: dict[str, str]
    connecting: str
    ends: str


_TABLE = toml.read(__package__, "nccl_start.toml", _Table)
PHASES = {pattern: NcclPhase[name.upper()] for name, pattern in _TABLE.phases.items()}
MAX_PROCESSES = 100_000
CHANNEL = b"NCCL INFO Channel "
SAMPLED = 16384  # lines about channels in one file among which each process's last is found
SAMPLE = 2  # of them in each block after that

OVER_NET = b" via NET/"
MAX_NET = 4096  # lines about channels over the network in one file that are taken apart

_CONNECTING, _ENDS = regex.compile(_TABLE.connecting), regex.compile(_TABLE.ends)


@dataclass
class _Stage:
    """Where one process stands."""

    who: Who
    phase: NcclPhase = NcclPhase.INTERFACE
    text: str = ""
    source: Source | None = None
    fields: dict[str, str] = field(default_factory=dict)


class NcclStartReader(LineReader):
    """Collects the furthest phase of each process in its first communicator."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._looked_at = 0  # lines about channels
        self._furthest: dict[tuple[str | None, int | None, int | None], _Stage] = {}
        self._channels: dict[bytes, NetChannel] = {}

    @wants(*PHASES)
    def on_phase(self, line: FoundLine, match: Match) -> None:
        """Note that a process has come to a phase."""
        self._note(PHASES[match.re.pattern], line, match)

    @wants_block(_TABLE.connecting)
    def on_channels(self, block: Block) -> None:
        """Note who connects channels: of that a log may hold millions of lines, and few matter."""
        alone = self._file.voice.who.rank is not None  # nobody else speaks here
        most = SAMPLE if alone else max(SAMPLE, SAMPLED - self._looked_at)
        places, looked_at = last_of_each(block, CHANNEL, most)
        self._looked_at += looked_at
        for at in places:
            for line in FoundLine.all_in(block, *block.segment(at, LONGEST), self._file):
                if match := _CONNECTING.search(line.text):
                    self._note(NcclPhase.CONNECTING, line, match)
        self._on_network(block)

    def _on_network(self, block: Block) -> None:
        """Note each connection over the network once for each of its ends."""
        at = block.start
        while (
            len(self._channels) < MAX_NET and (at := block.data.find(OVER_NET, at, block.stop)) > 0
        ):
            start, end = block.segment(at, LONGEST)
            at = end
            ends = bytes(block.data[block.data.rfind(b" : ", start, end) : end])
            if ends in self._channels:
                continue
            for line in FoundLine.all_in(block, start, end, self._file):
                if match := _ENDS.search(line.text):
                    self._channels[ends] = NetChannel(
                        who=line.who,
                        source=line.source,
                        text=line.text,
                        sender=int(match["sender"]),
                        receiver=int(match["receiver"]),
                        devices=(match["from"], match["to"]),
                        sends=match["way"] == "send",
                        via=match["via"],
                    )

    def _note(self, phase: NcclPhase, line: FoundLine, match: Match) -> None:
        key = (line.who.host, line.who.pid, line.who.rank)
        stage = self._furthest.get(key)
        if stage is None:
            if len(self._furthest) >= MAX_PROCESSES:
                return
            stage = self._furthest[key] = _Stage(line.who)
        stage.fields |= {k: v for k, v in match.groupdict().items() if v}
        if stage.source is None or phase >= stage.phase:
            stage.phase, stage.text, stage.source = phase, line.text, line.source

    def facts(self) -> Iterator[Fact]:
        """Yield the phase of each process, the family of its address, and who connects to whom."""
        for channel in self._channels.values():
            yield replace(channel, who=self._file.resolve(channel.who))
        for stage in self._furthest.values():
            if stage.source is None:
                continue
            who = self._file.resolve(stage.who)
            address = stage.fields.get("address", "")
            yield NcclSetup(
                phase=stage.phase,
                text=stage.text,
                transport=stage.fields.get("via", ""),
                interface=stage.fields.get("interface", ""),
                address=address,
                who=who,
                source=stage.source,
            )
            if address:
                family = "IPv6" if ":" in address else "IPv4"
                yield Setting(name="address-family", value=family, who=who, source=stage.source)
                yield OwnAddress(who=who, address=Address(host=address), source=stage.source)
            if network := stage.fields.get("chosen"):
                yield Setting(name="network", value=network, who=who, source=stage.source)

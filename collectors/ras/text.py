"""The RAS report as text, as ``ncclras`` prints it (NCCL 2.24.3 to 2.30, plain and verbose).

It is written by ``rasClientRunInit`` and ``rasClientRunComms`` of ``src/ras/client_support.cc``:
a summary of the job, a table with one row for alike communicators, then blocks for what is
wrong, each headed by ``#group-index (hash) KIND``. Ranks are listed only where they are few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from whyhang.analyzer.facts import replace
from whyhang.collectors.ras.report import (
    DEAD,
    NOBODY,
    OPS,
    STATUS,
    UNRESPONSIVE,
    Comm,
    Counted,
    Lost,
    Member,
    Peer,
    Report,
)

_VERSION = re.compile(r"NCCL version (\S+) compiled with CUDA")
_TOTALS = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s*$")
_UNIFORM = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$")
_ROW = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+(?:-\d+)?)\s+(\d+)\s+(\d+)\s+([A-Z,]+)\s+([A-Z,]+)\s*$"
)
_COMM = re.compile(r"#(\d+)-(\d+) \(([0-9a-f]{1,16})\) (INCOMPLETE|ERROR|MISMATCH)")
_PROCESS = re.compile(r"Process (\d+) on node (\S+) managing GPUs? (.+?)\s*$")
_MANAGED = (
    r"(?: -- (?:GPU (?P<gpu>.+?) managed by process (?P<pid>\d+) on node (?P<node>\S+)|\[.*))?"
)
_RANK = re.compile(rf"^\s*Rank (?P<rank>\d+)(?P<what>| (?:has|reported) .+?){_MANAGED}\s*$")
_SOME = re.compile(r"^\s*(?P<size>\d+) ranks? (?P<what>(?:have|has|reported) .+?)\s*$")
_NUMBERS = re.compile(r"The (?P<what>missing|unknown) ranks?: (?P<ranks>\d+(?:, ?\d+)*)")
_COUNTS = re.compile(r"Communicator ranks have different (?:(\w+) operation|collective operation)")
_LAUNCHED = re.compile(r"ha(?:s|ve) (?:launched up to operation (\d+)|not launched any)")
_STATUS = re.compile(r"ha(?:s|ve) status (\w+)")
_REPORTED = re.compile(r"reported (.+)")
_TIMEOUTS = re.compile(r"Encountered (\d+) communication timeouts?")


class _Block:
    """What was read of one communicator."""

    def __init__(self, number: int, size: int | None, line: int) -> None:
        self.hash = number
        self.size = size
        self.line = line
        self.members: dict[int, Member] = {}
        self.counted: list[Counted] = []
        self.op: str | None = None  # of the counts that follow

    def add(self, member: Member) -> None:
        """Note a rank; a later block of the same communicator adds to it."""
        known = self.members.get(member.rank)
        if known is not None:
            member = replace(
                known,
                peer=known.peer if known.peer != NOBODY else member.peer,
                state=member.state or known.state,
                error=member.error or known.error,
                quote=member.quote if member.state or member.error else known.quote,
                line=member.line if member.state or member.error else known.line,
            )
        self.members[member.rank] = member

    def comm(self) -> Comm:
        """Give what was read."""
        return Comm(
            hash=self.hash,
            size=self.size,
            members=tuple(self.members[rank] for rank in sorted(self.members)),
            counted=tuple(self.counted),
            line=self.line,
        )


class _Parser:
    """Reads line by line; ``what`` and ``block`` say what lines of ranks are about."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.processes: int | None = None
        self.gpus: int | None = None
        self.sizes: dict[int, int] = {}  # of the communicators of a group
        self.blocks: dict[int, _Block] = {}
        self.lost: list[Lost] = []
        self.block: _Block | None = None
        self.what = ""  # the heading or state under which ranks or processes are listed
        self.status: str | None = None  # told above of ranks that are listed without one
        self.error: str | None = None
        self.part = ""  # of the report: "summary", "communicators", "errors", "warnings"
        self.timeouts = 0
        self.timeouts_line: int | None = None
        self.empty: int | None = None

    def line(self, number: int, text: str) -> None:
        word = text.strip()
        if word.startswith(("Job summary", "Communicators...", "Errors", "Warnings")):
            self.part = word.split()[0].rstrip(".").lower()
            self.block, self.what, self.status, self.error = None, "", None, None
        elif self.part in {"errors", "warnings"}:
            self._trouble(number, text, word)
        elif told := _VERSION.search(text):
            self.version = told[1]
        elif "No communicator data collected" in word:
            self.empty = number
        elif self.part == "job":
            self._summary(text)
        elif row := _ROW.match(text):
            self.sizes[int(row[1])] = int(row[5])

    def _trouble(self, number: int, text: str, word: str) -> None:
        if told := _COMM.search(text):
            self._begin(told, number)
        elif word in {"INCOMPLETE", "DEAD", "TIMEOUT"}:
            self.block, self.what = None, DEAD if word == "DEAD" else UNRESPONSIVE
        elif told := _PROCESS.search(text):
            peer = Peer(pid=int(told[1]), node=told[2], gpu=told[3])
            self.lost.append(Lost(peer=peer, state=self.what, quote=word, line=number))
        elif told := _TIMEOUTS.search(text):
            self.timeouts, self.timeouts_line = int(told[1]), number
        elif self.block is not None:
            self._of_block(self.block, number, text)

    def _summary(self, text: str) -> None:
        if told := _UNIFORM.match(text):
            self.processes, self.gpus = int(told[4]), int(told[5])
        elif told := _TOTALS.match(text):  # the last such row holds the totals
            self.processes, self.gpus = int(told[2]), int(told[3])

    def _begin(self, told: re.Match[str], number: int) -> None:
        key = int(told[3], 16)
        if key not in self.blocks:
            self.blocks[key] = _Block(key, self.sizes.get(int(told[1])), number)
        self.block, self.what, self.status, self.error = self.blocks[key], told[4], None, None
        self.block.op = None

    def _of_block(self, block: _Block, number: int, text: str) -> None:
        if told := _COUNTS.search(text):
            block.op = OPS.get(told[1] or "", (told[1] or "").lower())
        elif told := _NUMBERS.search(text):
            state = UNRESPONSIVE if told["what"] == "missing" else STATUS["UNKNOWN"]
            for rank in told["ranks"].split(","):
                block.add(Member(rank=int(rank), state=state, quote=text.strip(), line=number))
        elif told := _RANK.match(text):
            self._rank(block, number, text, told)
        elif told := _SOME.match(text):
            self._some(block, number, int(told["size"]), told["what"])

    def _rank(self, block: _Block, number: int, text: str, told: re.Match[str]) -> None:
        peer = NOBODY
        if told["pid"]:
            peer = Peer(pid=int(told["pid"]), node=told["node"], gpu=told["gpu"])
        one = Member(rank=int(told["rank"]), peer=peer, quote=text.strip(), line=number)
        what = told["what"].strip()
        if launched := _LAUNCHED.search(what):
            block.add(one)
            block.counted.append(_counted(block, launched, 1, number, (one,)))
        elif status := _STATUS.search(what):
            block.add(replace(one, state=STATUS.get(status[1], "")))
        elif error := _REPORTED.search(what):
            block.add(replace(one, error=error[1]))
        elif not what and self.what == "INCOMPLETE" and self.status is None and self.error is None:
            block.add(replace(one, state=UNRESPONSIVE))
        elif not what:  # it belongs to the line with the number of ranks above
            self._listed(block, one)

    def _listed(self, block: _Block, one: Member) -> None:
        if self.error is not None:
            one = replace(one, error=self.error)
        elif self.status is not None:
            one = replace(one, state=STATUS.get(self.status, ""))
        elif block.op is not None and block.counted:
            last = block.counted[-1]
            block.counted[-1] = replace(last, ranks=(*last.ranks, one))
        block.add(one)

    def _some(self, block: _Block, number: int, size: int, what: str) -> None:
        if launched := _LAUNCHED.search(what):
            block.counted.append(_counted(block, launched, size, number, ()))
        elif status := _STATUS.search(what):
            self.status, self.error = status[1], None
        elif error := _REPORTED.search(what):
            self.status, self.error = None, error[1]


def _counted(
    block: _Block, launched: re.Match[str], size: int, number: int, ranks: tuple[Member, ...]
) -> Counted:
    return Counted(
        op=block.op or "", count=int(launched[1] or 0), size=size, ranks=ranks, line=number
    )


def parse(lines: Iterable[str]) -> Report:
    """Read a report from its lines; what stands around it is passed over."""
    parser = _Parser()
    for number, text in enumerate(lines, 1):
        parser.line(number, text)
    return Report(
        comms=tuple(block.comm() for block in parser.blocks.values()),
        lost=tuple(parser.lost),
        version=parser.version,
        processes=parser.processes,
        gpus=parser.gpus,
        timeouts=parser.timeouts,
        timeouts_line=parser.timeouts_line,
        cut=parser.part != "warnings",
        empty_line=parser.empty,
    )

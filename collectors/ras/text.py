"""The RAS report as text, as ``ncclras`` prints it (NCCL 2.24.3 to 2.30, plain and verbose).

It is written by ``rasClientRunInit`` and ``rasClientRunComms`` of ``src/ras/client_support.cc``:
a summary of the job, a table with one row for alike communicators, then blocks for what is
wrong, each headed by ``#group-index (hash) KIND``. Ranks are listed only where they are few.
"""

from collections.abc import Iterable

from whyhang.analyzer.facts import replace
from whyhang.collectors import limits
from whyhang.collectors.ops import op_of
from whyhang.collectors.ras.report import (
    DEAD,
    NOBODY,
    STATUS,
    UNRESPONSIVE,
    Comm,
    Counted,
    Lost,
    Peer,
    RasDocument,
    RasMember,
)

_N = r"\d{1,18}+"
_PARTS = ("Job summary", "Communicators...", "Errors", "Warnings")
_VERSION = limits.compile(r"NCCL version (\S++) compiled with CUDA")
_TOTALS = limits.compile(rf"({_N}) ({_N}) ({_N})$")
_UNIFORM = limits.compile(rf"({_N}) ({_N}) ({_N}) ({_N}) ({_N})$")
_ROW = limits.compile(
    rf"({_N}) ({_N}) ({_N}) ({_N}(?:-{_N})?) ({_N}) ({_N}) ([A-Z,]++) ([A-Z,]++)$"
)
_COMM = limits.compile(rf"#({_N})-({_N}) \(([0-9a-f]{{1,16}})\) (INCOMPLETE|ERROR|MISMATCH)")
_PROCESS = limits.compile(rf"Process ({_N}) on node (\S++) managing GPUs? (.+)$")
_MANAGED = limits.compile(rf"GPU (.+?)(?: managed by|,) process ({_N})(?: on|,) node (\S++)$")
_RANK = limits.compile(rf"Rank (?P<rank>{_N})(?: (?P<what>(?:has|reported) .+))?$")
_SOME = limits.compile(rf"(?P<size>{_N}) ranks? (?P<what>(?:have|has|reported) .+)$")
_NUMBERS = limits.compile(rf"The (?P<what>missing|unknown) ranks?: (?P<ranks>{_N}(?:, ?{_N})*+)")
_COUNTS = limits.compile(
    r"Communicator ranks have different (?:(\w++) operation|collective operation)"
)
_LAUNCHED = limits.compile(rf"ha(?:s|ve) (?:launched up to operation ({_N})|not launched any)")
_STATUS = limits.compile(r"ha(?:s|ve) status (\w++)")
_REPORTED = limits.compile(r"reported (.+)")
_TIMEOUTS = limits.compile(rf"Encountered ({_N}) communication timeouts?")


def parse(lines: Iterable[str]) -> RasDocument | None:
    """Read a report from its lines; what stands around it is passed over. None if it is none."""
    parser = _Parser()
    for number, line in enumerate(lines, 1):
        parser.line(number, " ".join(line.split()))
    report = replace(
        parser.report,
        gpus=parser.report.gpus or parser.most or None,  # the summary may be cut off
        comms=tuple(block.comm() for block in parser.blocks.values()),
        lost=tuple(parser.lost),
        cut=parser.part != "Warnings",
    )
    is_one = report.version or report.comms or report.processes or report.lost
    return report if is_one else None


class _Block:
    """What was read of one communicator."""

    def __init__(self, number: int, size: int | None, line: int) -> None:
        self.hash = number
        self.size = size
        self.line = line
        self.members: dict[int, RasMember] = {}
        self.counted: list[Counted] = []
        self.op: str | None = None  # of the counts that follow

    def add(self, member: RasMember) -> None:
        """Note a rank; a later block of the same communicator adds to it."""
        known = self.members.get(member.rank, member)
        newest = member if member.state or member.error else known
        self.members[member.rank] = replace(
            newest,
            peer=known.peer if known.peer != NOBODY else member.peer,
            state=member.state or known.state,
            error=member.error or known.error,
        )

    def count(self, launched: str | None, size: int, line: int, *ranks: RasMember) -> None:
        """Note how many operations some ranks have launched, None for none."""
        counted = Counted(
            op=self.op or "", count=int(launched or 0), size=size, ranks=ranks, line=line
        )
        self.counted.append(counted)

    def comm(self) -> Comm:
        """Return what was read. Who quotes a block alone lists all ranks, or leaves some out."""
        listed = len(self.members)
        is_whole = listed > 1 and self.members.keys() == set(range(listed))
        return Comm(
            hash=self.hash,
            size=self.size if self.size or not is_whole else listed,
            members=tuple(self.members[rank] for rank in sorted(self.members)),
            counted=tuple(self.counted),
            line=self.line,
        )


class _Parser:
    """Reads line by line; ``_block`` and ``_listed_as`` say what lines of ranks are about."""

    def __init__(self) -> None:
        self.report = RasDocument(comms=())
        self.blocks: dict[int, _Block] = {}
        self.lost: list[Lost] = []
        self.part = ""  # of the report, one of _PARTS
        self.most = 0  # ranks of a group of communicators
        self._sizes: dict[int, int] = {}  # of the communicators of a group
        self._block: _Block | None = None
        self._listed_as: dict[str, str] = {}  # state or error of what is listed

    def line(self, number: int, text: str) -> None:
        """Read a line, given with single blanks."""
        part = next((part for part in _PARTS if text.startswith(part)), None)
        if part is not None:
            self.part, self._block, self._listed_as = part, None, {}
        elif self.part in {"Errors", "Warnings"} or _COMM.match(text):
            if self.part != "Errors":  # else a piece was quoted
                self.part = "Warnings"
            self._trouble(number, text)
        elif match := _VERSION.search(text):
            self._learn(version=match[1])
        elif "No communicator data collected" in text:
            self._learn(empty_line=number)
        elif self.part == "Job summary":
            if match := _UNIFORM.match(text):
                self._learn(processes=int(match[4]), gpus=int(match[5]))
            elif match := _TOTALS.match(text):  # the last such row holds the totals
                self._learn(processes=int(match[2]), gpus=int(match[3]))
        elif match := _ROW.match(text):
            self._sizes[int(match[1])] = int(match[5])
            self.most = max(self.most, int(match[5]), int(match[6]))  # some may not have answered

    def _learn(self, **fields: object) -> None:
        self.report = replace(self.report, **fields)

    def _trouble(self, number: int, text: str) -> None:
        if match := _COMM.search(text):
            key = int(match[3], 16)
            size = self._sizes.get(int(match[1]))
            self._block = self.blocks.setdefault(key, _Block(key, size, number))
            self._block.op = None
            self._listed_as = {"state": UNRESPONSIVE} if match[4] == "INCOMPLETE" else {}
        elif text in {"INCOMPLETE", "DEAD", "TIMEOUT"}:
            self._block = None
            self._listed_as = {"state": DEAD if text == "DEAD" else UNRESPONSIVE}
        elif match := _PROCESS.search(text):
            peer = Peer(pid=int(match[1]), node=match[2], gpu=match[3])
            state = self._listed_as.get("state", "")
            self.lost.append(Lost(peer=peer, state=state, quote=text, line=number))
        elif match := _TIMEOUTS.search(text):
            self._learn(timeouts=int(match[1]), timeouts_line=number)
        elif self._block is not None:
            self._of_block(self._block, number, text)

    def _of_block(self, block: _Block, number: int, text: str) -> None:
        row, _, managed = text.partition(" -- ")
        if match := _COUNTS.search(text):
            block.op = op_of(match[1] or "")
            # of several reports in a row the last counts
            block.counted = [each for each in block.counted if each.op != block.op]
        elif match := _NUMBERS.search(text):
            state = UNRESPONSIVE if match["what"] == "missing" else STATUS["UNKNOWN"]
            for rank in match["ranks"].split(","):
                block.add(RasMember(rank=int(rank), state=state, quote=text, line=number))
        elif match := _RANK.match(row):
            by = _MANAGED.match(managed)
            peer = Peer(pid=int(by[2]), node=by[3], gpu=by[1]) if by else NOBODY
            member = RasMember(rank=int(match["rank"]), peer=peer, quote=text, line=number)
            self._rank(block, member, match["what"] or "")
        elif match := _SOME.match(text):
            if launched := _LAUNCHED.search(match["what"]):
                block.count(launched[1], int(match["size"]), number)
            else:  # the ranks may be listed below it
                self._listed_as = _state_fields(match["what"]) or self._listed_as

    def _rank(self, block: _Block, member: RasMember, what: str) -> None:
        """Take a line that says something of one rank, or lists one that a line above is about."""
        fields = _state_fields(what) if what else self._listed_as
        if launched := _LAUNCHED.search(what):
            block.count(launched[1], 1, member.line or 0, member)
        elif not what and not fields and block.op is not None and block.counted:
            last = block.counted[-1]
            block.counted[-1] = replace(last, ranks=(*last.ranks, member))
        if launched or fields or not what:
            block.add(replace(member, **fields))


def _state_fields(what: str) -> dict[str, str]:
    """Return the state or the error of ranks that "has status ABORT" or "reported …" tells."""
    if status := _STATUS.search(what):
        return {"state": STATUS.get(status[1], "")}
    error = _REPORTED.search(what)
    return {"error": error[1]} if error else {}

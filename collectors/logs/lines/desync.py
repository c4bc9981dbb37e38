"""The desync report: what the ranks' last calls were, as one of them read it from the store.

It is printed with TORCH_NCCL_DESYNC_DEBUG=1 or TORCH_DISTRIBUTED_DEBUG=DETAIL, over several
lines (``retrieveDesyncReport`` in c10d's ``TraceUtils.h``, torch 1.13 and newer). Its ranks count
within the group, which most often is the default group, where they are global.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import regex

from whyhang.analyzer.facts import Call, CallState, Fact, Source, Track, Trust, Who, unfold
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.c10d_names import DEFAULT_GROUP
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants
from whyhang.collectors.ops import op_of

MAX_LINES = 64
_RANKS_AND_OP = regex.compile(r"\[(?P<ranks>[\d, ]+)\] (?:started|finished) (?P<op>\w+)")


@dataclass
class _Last:
    """The last that is known of one rank."""

    source: Source
    op: str = ""
    entered: int = 0
    finished: int = 0


class DesyncReader(LineReader):
    """Puts the lines of desync reports together into a ``Track`` per rank."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._last: dict[int, _Last] = {}

    def _note(self, line: FoundLine, ranks: str, seq: str = "0", *, finished: bool = False) -> None:
        """Note that ranks entered a collective, and perhaps left it."""
        for rank in unfold(ranks):
            last = self._last.setdefault(rank, _Last(line.source))
            last.entered = max(last.entered, int(seq))
            if finished:
                last.finished = max(last.finished, int(seq))

    @wants(r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks that caused this timeout")
    def on_never(self, line: FoundLine, match: Match) -> None:
        """Note ranks that joined no collective at all."""
        self._note(line, match["ranks"])

    @wants(r"\[(?P<ranks>[\d, ]+)\] joined but didn't finish collective #(?P<seq>\d+)")
    def on_inside(self, line: FoundLine, match: Match) -> None:
        """Note ranks that are inside a collective."""
        self._note(line, match["ranks"], match["seq"])

    @wants(r"\[(?P<ranks>[\d, ]+)\] finished collective #(?P<seq>\d+), but didn't join collective")
    def on_between(self, line: FoundLine, match: Match) -> None:
        """Note ranks that are done with one collective and have not begun the next."""
        self._note(line, match["ranks"], match["seq"], finished=True)
        for rank in unfold(match["ranks"]):
            self._last[rank].entered = self._last[rank].finished

    @wants(r"- \[(?P<rank>\d+)\] Timeout at collective: (?P<op>\w+), #(?P<seq>\d+)")
    def on_own(self, line: FoundLine, match: Match) -> None:
        """Note the collective in which the rank that prints the report waits."""
        self._note(line, match["rank"], match["seq"])
        self._last[int(match["rank"])].op = op_of(match["op"])

    @wants(r"#(?P<seq>\d+) (?P<state>started|finished) ranks:")
    def on_states(self, line: FoundLine, match: Match) -> None:
        """Read the snapshot: under each number, which ranks began or ended what."""
        for _, after in line.following(MAX_LINES, bare=True):
            row = _RANKS_AND_OP.search(after.text)
            if row is None:
                return
            self._note(line, row["ranks"], match["seq"], finished=match["state"] == "finished")
            for rank in unfold(row["ranks"]):
                self._last[rank].op = op_of(row["op"])

    def facts(self) -> Iterator[Fact]:
        """Yield a track for each rank that the reports speak of."""
        for rank, last in sorted(self._last.items()):
            inside = last.entered > last.finished
            state = CallState.STARTED if inside else CallState.COMPLETED
            calls = (Call(op=last.op, seq=last.entered, state=state, line=last.source.line),)
            yield Track(
                who=Who(rank=rank, trust=Trust.INFERRED),
                group=DEFAULT_GROUP,
                kind="desync",
                source=last.source,
                enqueued=last.entered,
                completed=last.finished,
                calls=calls if last.op else (),
            )

"""The desync report: what the ranks' last calls were, as one of them read it from the store.

It is printed with TORCH_NCCL_DESYNC_DEBUG=1 or TORCH_DISTRIBUTED_DEBUG=DETAIL, over several
lines (``retrieveDesyncReport`` in c10d's ``TraceUtils.h``, torch 1.13 and newer). Its ranks count
within the group, which most often is the default group, where they are global.
"""

from __future__ import annotations

from collections.abc import Iterator

from whyhang.analyzer.model import Call, CallState, Fact, Source, Track, Trust, Who
from whyhang.collectors.logs.found import FoundLine, LineReader, LogFile, wants
from whyhang.collectors.logs.matching import Match
from whyhang.collectors.logs.ops import DEFAULT_GROUP, op_of

MAX_LINES = 64
_RANKS_AND_OP = r"\[(?P<ranks>[\d, ]+)\] (?:started|finished) (?P<op>\w+)"


class _Last:
    """The last that is known of one rank."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.op = ""
        self.entered = 0
        self.finished = 0


class DesyncReader(LineReader):
    """Puts the lines of desync reports together into a ``Track`` per rank."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._last: dict[int, _Last] = {}

    def _of(self, rank: int, found: FoundLine) -> _Last:
        return self._last.setdefault(rank, _Last(found.source))

    @wants(r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks that caused this timeout")
    def on_never(self, found: FoundLine, match: Match) -> None:
        """Note ranks that joined no collective at all."""
        for rank in _ranks(match["ranks"]):
            self._of(rank, found)

    @wants(r"\[(?P<ranks>[\d, ]+)\] joined but didn't finish collective #(?P<seq>\d+)")
    def on_inside(self, found: FoundLine, match: Match) -> None:
        """Note ranks that are inside a collective."""
        for rank in _ranks(match["ranks"]):
            last = self._of(rank, found)
            last.entered = max(last.entered, int(match["seq"]))

    @wants(r"\[(?P<ranks>[\d, ]+)\] finished collective #(?P<seq>\d+), but didn't join collective")
    def on_between(self, found: FoundLine, match: Match) -> None:
        """Note ranks that are done with one collective and have not begun the next."""
        for rank in _ranks(match["ranks"]):
            last = self._of(rank, found)
            last.entered = last.finished = max(last.finished, int(match["seq"]))

    @wants(r"- \[(?P<rank>\d+)\] Timeout at collective: (?P<op>\w+), #(?P<seq>\d+)")
    def on_own(self, found: FoundLine, match: Match) -> None:
        """Note the collective in which the rank that prints the report waits."""
        last = self._of(int(match["rank"]), found)
        last.entered, last.op = max(last.entered, int(match["seq"])), op_of(match["op"])

    @wants(r"#(?P<seq>\d+) (?P<state>started|finished) ranks:")
    def on_states(self, found: FoundLine, match: Match) -> None:
        """Read the snapshot: under each number, which ranks began or ended what."""
        import regex  # noqa: PLC0415 - heavy

        for _, line in found.following(MAX_LINES, bare=True):
            told = regex.search(_RANKS_AND_OP, line.text)
            if told is None:
                return
            for rank in _ranks(told["ranks"]):
                last = self._of(rank, found)
                last.op = op_of(told["op"])
                last.entered = max(last.entered, int(match["seq"]))
                if match["state"] == "finished":
                    last.finished = max(last.finished, int(match["seq"]))

    def facts(self) -> Iterator[Fact]:
        """Give a track for each rank that the reports speak of."""
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


def _ranks(text: str) -> list[int]:
    return [int(number) for number in text.replace(",", " ").split()]

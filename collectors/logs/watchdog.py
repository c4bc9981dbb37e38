"""What the watchdog of ProcessGroupNCCL says: who waits in which call, and how far it came.

Sources: ``ProcessGroupNCCL.cpp`` of torch 1.13 to 2.15. The rank in "[Rank 3]" and in
"[PG … Rank 3]" counts within a group and is never taken for the speaker's. Up to torch 2.2 no
line names the group; then calls of one number are taken for one group's, because ranks that
time out at different numbers of one group would contradict each other: a rank cannot finish
call 12 while another still waits in call 11, unless a GPU or its driver stalled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from whyhang.analyzer import lazy_re
from whyhang.analyzer.model import (
    Call,
    CallState,
    Claim,
    Fact,
    Frame,
    Group,
    Source,
    Track,
    Who,
)
from whyhang.collectors.logs.found import FoundLine, LineReader, LogFile, wants
from whyhang.collectors.logs.matching import Match
from whyhang.collectors.logs.ops import DEFAULT_GROUP, group_of, is_p2p, numel, op_of, shape

MAX_FRAMES = 60
MAX_CALLS = 8

_FRAME = lazy_re.compile(r"#\d+ (?P<function>.+) from (?P<file>.+):(?P<line>\d+)$")


class _Work:
    """A call that timed out, or was in flight when an error came."""

    def __init__(self, found: FoundLine, match: Match) -> None:
        self.who = found.who
        self.source = found.source
        self.seq = int(match["seq"])
        self.op = op_of(match["op"])
        self.input = numel(match["numel_in"]) or shape(match["shape"])
        self.output = numel(match["numel_out"]) or shape(match["shape"])
        told = group_of(found.text)
        self.group = told[0] if told else None
        self.frames: tuple[Frame, ...] = ()

    def call(self) -> Call:
        return Call(
            op=self.op,
            seq=self.seq,
            state=CallState.SCHEDULED,
            p2p=is_p2p(self.op),
            input_sizes=self.input,
            output_sizes=self.output,
            frames=self.frames,
            line=self.source.line,
        )


class _Status:
    """The counters of one group on one rank, as last told."""

    def __init__(self, found: FoundLine, group: Group, number: int | None, match: Match) -> None:
        told = match.groupdict()
        self.who = found.who
        self.source = found.source
        self.group = group
        self.number = number
        self.seq = int(told["seq"]) if told.get("seq") else None
        self.enqueued = int(match["enqueued"])
        self.started = int(told["started"]) if told.get("started") else -1
        self.completed = int(match["completed"])


class WatchdogReader(LineReader):
    """Puts the lines of one log together into a ``Track`` per rank and group."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._works: dict[tuple[Who, int, str], _Work] = {}
        self._latest: dict[Who, _Work] = {}
        self._statuses: dict[tuple[Who, str, str | None], _Status] = {}
        self._first: Claim | None = None

    @wants(
        r"WorkNCCL\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)"
        r"(?:, TensorShape=(?P<shape>\[[\d, ]*\]))?"
        r"(?:, NumelIn=(?P<numel_in>\d+), NumelOut=(?P<numel_out>\d+))?"
    )
    def on_work(self, found: FoundLine, match: Match) -> None:
        """Note a call; the same one is told several times."""
        work = _Work(found, match)
        known = self._works.setdefault((found.who, work.seq, work.op), work)
        if known.group is None:
            known.group = work.group
        self._latest[found.who] = known

    @wants(
        r"(?:Timeout at NCCL work|detected by watchdog at work(?: sequence id)?): (?P<seq>-?\d+),?"
        r" (?:PG status: )?last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+)"
        r"(?:, last started (?:NCCL )?work: (?P<started>-?\d+)(?: \([^)]*\))?)?"
        r", last completed (?:NCCL )?work: (?P<completed>-?\d+)",
        r"Last enqueued NCCL work: (?P<enqueued>-?\d+), "
        r"last completed NCCL work: (?P<completed>-?\d+)",
    )
    def on_status(self, found: FoundLine, match: Match) -> None:
        """Note how far a group came on the speaker."""
        told = group_of(found.text)
        group = told[0] if told else DEFAULT_GROUP
        status = _Status(found, group, told[1] if told else None, match)
        key = (found.who, group.name, group.description)
        if status.seq is None and key in self._statuses:
            return  # the line that names the call that hangs says more
        self._statuses[key] = status

    @wants(r"Stack trace of the failed collective: *$")
    def on_stack(self, found: FoundLine, match: Match) -> None:
        """Read the Python stack of the call that hangs."""
        frames = []
        for _, line in found.following(MAX_FRAMES, bare=True):
            told = _FRAME.match(line.text)
            if told is None:
                break
            frames.append(
                Frame(function=told["function"], file=told["file"], line=int(told["line"]))
            )
        work = self._latest.get(found.who)
        if work is not None and not work.frames:
            work.frames = tuple(frames)

    @wants(r"Received a (?:global )?dump signal .{0,40}from  ?rank (?P<rank>\d+)")
    def on_first_rank(self, found: FoundLine, match: Match) -> None:
        """Note which rank was the first to give up (a waiter, rarely the culprit)."""
        if self._first is None:
            self._first = Claim(
                about="timed_out_first", value=match["rank"], who=found.who, source=found.source
            )

    def facts(self) -> Iterator[Fact]:
        """Give a track per rank and group, and which rank timed out first."""
        works = list(self._works.values())
        self._place(works)
        done: set[int] = set()
        spoken: dict[Who, list[_Work]] = {}
        for work in works:
            spoken.setdefault(work.who, []).append(work)
        for status in self._statuses.values():
            calls = [
                work
                for work in spoken.get(status.who, ())
                if work.group is not None and _same(work, status)
            ]
            done |= {id(work) for work in calls}
            yield self._track(status.who, status.group, status.source, calls, status)
        rest: dict[tuple[Who, str, str | None], list[_Work]] = {}
        for work in works:
            if id(work) not in done and work.group is not None:
                key = (work.who, work.group.name, work.group.description)
                rest.setdefault(key, []).append(work)
        for (who, _, _), calls in rest.items():
            yield self._track(who, calls[0].group or DEFAULT_GROUP, calls[0].source, calls, None)
        if self._first is not None:
            yield self._first

    def _place(self, works: list[_Work]) -> None:
        """Find the group of each call: its own line, the status of that number, else the usual."""
        told: dict[tuple[Who, int | None], Group] = {}
        for status in self._statuses.values():
            told.setdefault((status.who, status.seq), status.group)
        for work in works:
            if work.group is None:
                work.group = told.get((work.who, work.seq))
        open_works = [work for work in works if work.group is None]
        usual = Counter(work.seq for work in open_works).most_common(1)
        for work in open_works:
            if is_p2p(work.op):
                work.group = Group(name=f"pair of {work.op} {work.seq}", inferred=True)
            elif work.seq == usual[0][0]:
                work.group = DEFAULT_GROUP
            else:
                work.group = Group(name=f"the one with call {work.seq}", inferred=True)

    def _track(
        self, who: Who, group: Group, source: Source, works: list[_Work], status: _Status | None
    ) -> Track:
        calls = sorted((work.call() for work in works), key=lambda call: call.seq or 0)
        collectives = [call.seq for call in calls if call.seq is not None and not call.p2p]
        first = min(collectives, default=None)
        return Track(
            who=self._file.resolve(who),
            group=group,
            kind="watchdog",
            source=source,
            enqueued=_count(status.enqueued) if status else None,
            started=_told(status.started) if status else None,
            completed=_count(status.completed) if status else _before(first),
            calls=tuple(calls[:MAX_CALLS]),
            number=status.number if status else None,
        )


def _same(work: _Work, status: _Status) -> bool:
    group = work.group
    return group is not None and (group.name, group.description) == (
        status.group.name,
        status.group.description,
    )


def _count(number: int) -> int:
    """Read -1, which means none yet, as 0."""
    return max(number, 0)


def _told(number: int) -> int | None:
    """Read -1 of "last started", which means that timing is off, as not known."""
    return number if number >= 0 else None


def _before(seq: int | None) -> int | None:
    return seq - 1 if seq else None

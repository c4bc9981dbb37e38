"""What the watchdog of ProcessGroupNCCL says: who waits in which call, and how far it came.

Sources: ``ProcessGroupNCCL.cpp`` of torch 1.13 to 2.15. The rank in "[Rank 3]" and in
"[PG … Rank 3]" counts within a group and is never taken for the speaker's. Up to torch 2.2 no
line names the group; then calls of one number are taken for one group's, because ranks that
time out at different numbers of one group would contradict each other: a rank cannot finish
call 12 while another still waits in call 11, unless a GPU or its driver stalled.

"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from whyhang.analyzer.facts import (
    NOBODY,
    Call,
    CallState,
    Fact,
    Frame,
    Group,
    Source,
    StackDump,
    Thread,
    Track,
    Who,
    WorldSize,
    replace,
)
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants
from whyhang.collectors.ops import P2P, op_of

MAX_FRAMES = 60
MAX_CALLS = 8
GONE = 60.0
"""Seconds behind which a process that gave up is gone: who makes a call then was started anew."""

_LATER = re.compile(r"terminated with exception|what\(\):")
_FRAME = re.compile(r"#\d+ (?P<function>.+) from (?P<file>.+):(?P<line>\d+)$")

# Two or three shapes of one prefix: torch 2.3 ("[PG 0 Rank 1]"), 2.4 (with a description), 2.5+.
_GROUP = re.compile(
    r"\[PG (?:ID \d+ )?(?:PG )?(?:GUID )?(?P<name>[^\s(\]]+) ?(?:\((?P<desc>[^)]*)\))?"
    r"(?: Rank (?P<rank>\d+))?\]"
)
DEFAULT_GROUP = Group(name="0", description="default_pg", inferred=True)
_MINUS_ONE = 2**64 - 1  # what c10d prints for "unknown" sizes


@dataclass
class _Work:
    """A call that timed out, or was in flight when an error came."""

    who: Who
    group: Group | None
    source: Source
    call: Call


_Key = tuple[Who, str, str | None]
"""A rank, and the name and description of a group."""


class WatchdogReader(LineReader):
    """Puts the lines of one log together into a ``Track`` per rank and group."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._works: dict[tuple[Who, int | None, str], _Work] = {}
        self._latest: dict[Who, _Work] = {}
        # The number of the call that hangs, and how far the rank came, as last told.
        self._statuses: dict[_Key, tuple[int | None, Track]] = {}
        self._stacks: dict[Who, tuple[tuple[Frame, ...], Source]] = {}

    @wants(
        r"WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)"
        r"(?:, TensorShape=(?P<shape>\[[\d, ]*\]))?"
        r"(?:, NumelIn=(?P<numel_in>\d+), NumelOut=(?P<numel_out>\d+))?"
        r"(?:(?:, Timeout\(ms\)=(?P<limit>\d+))?\)"
        r"(?: ran for (?P<ran>\d+) ?(?:milliseconds|ms)\b)?|[,)])"
    )
    def on_work(self, line: FoundLine, match: Match) -> None:
        """Note a call; the same one is told several times."""
        op = op_of(match["op"])
        call = Call(
            op=op,
            seq=int(match["seq"]) if match["seq"] else None,  # torch 1.9 and before
            state=CallState.SCHEDULED,
            p2p=op in P2P,
            input_sizes=numel(match["numel_in"]) or shape(match["shape"]),
            output_sizes=numel(match["numel_out"]) or shape(match["shape"]),
        )
        group, _ = group_of(line.text)
        if match["limit"]:
            call = replace(call, limit=int(match["limit"]) / 1000)
        work = _Work(line.who, group, line.source, call)
        known = self._works.setdefault((line.who, call.seq, op), work)
        known.group = known.group or group
        known.call = _timed(known.call, line, match["ran"], match["limit"])
        self._latest[line.who] = known

    @wants(
        r"(?:Timeout at NCCL work|detected by watchdog at work(?: sequence id)?): (?P<seq>-?\d+),?"
        r" (?:PG status: )?last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+)"
        r"(?:, last started (?:NCCL )?work: -?\d+(?: \([^)]*\))?)?"
        r", last completed (?:NCCL )?work: (?P<completed>-?\d+)",
        r"Last enqueued NCCL work: (?P<enqueued>-?\d+), "
        r"last completed NCCL work: (?P<completed>-?\d+)",
    )
    def on_status(self, line: FoundLine, match: Match) -> None:
        """Note how far a group came on the speaker."""
        group, number = group_of(line.text)
        group = group or DEFAULT_GROUP
        counts = match.groupdict()
        seq = int(counts["seq"]) if counts.get("seq") else None
        key = _key(line.who, group)
        if seq is None and key in self._statuses:
            return  # the line that names the call that hangs says more
        track = Track(
            who=line.who,
            group=group,
            kind="watchdog",
            source=line.source,
            enqueued=max(int(counts["enqueued"]), 0),  # -1: none yet
            completed=max(int(counts["completed"]), 0),
            number=number,
        )
        self._statuses[key] = (seq, track)

    @wants(r"Stack trace of the failed collective: *$")
    def on_stack(self, line: FoundLine, match: Match) -> None:
        """Read the Python stack of the call that hangs."""
        frames = []
        for _, after in line.following(MAX_FRAMES, bare=True):
            frame = _FRAME.match(after.text)
            if frame is None:
                break
            function, file, number = frame["function"], frame["file"], int(frame["line"])
            frames.append(Frame(function=function, file=file, line=number))
        work = self._latest.get(line.who)
        if work is None and frames:
            self._stacks.setdefault(line.who, (tuple(frames), line.source))
        elif work is not None and not work.call.frames:
            work.call = replace(work.call, frames=tuple(frames))

    def facts(self) -> Iterator[Fact]:
        """Yield a track per rank and group; the stack of a rank whose call is not in the log."""
        self._works = dict(self._of_the_last_start())
        for who, (stack, source) in self._stacks.items():
            if who not in self._latest:
                threads = (Thread(frames=stack),)
                yield StackDump(
                    who=who, tool="watchdog", threads=threads, source=source, main_only=True
                )
        self._place()
        works: dict[_Key, list[_Work]] = {}
        for work in self._works.values():
            works.setdefault(_key(work.who, work.group or DEFAULT_GROUP), []).append(work)
        for key in {**self._statuses, **works}:
            _, status = self._statuses.get(key, (None, None))
            yield self._track(status, works.get(key, []))
        yield from self._world_size()

    def _of_the_last_start(self) -> Iterator[tuple[tuple[Who, int | None, str], _Work]]:
        """Yield the calls without those that a process gave up which was started anew since."""
        made: dict[Who, float] = {}
        for (who, _, _), work in self._works.items():
            made[who] = max(made.get(who, 0.0), work.call.created_at or 0.0)
        for key, work in self._works.items():
            if (work.call.given_up_at or made[key[0]]) + GONE >= made[key[0]]:
                yield key, work

    def _world_size(self) -> Iterator[Fact]:
        """Yield how many ranks the default group has: what is gathered is so often what each gives.

        Nothing where ranks differ in that.
        """
        sizes: dict[int, Source] = {}
        for work in self._works.values():
            if work.group is not None and work.group.name == DEFAULT_GROUP.name:
                size = work.call.group_size
                if size is not None:
                    sizes.setdefault(size, work.source)
        if len(sizes) == 1:
            ((size, source),) = sizes.items()
            yield WorldSize(size=size, who=NOBODY, source=source)

    def _place(self) -> None:
        """Find the group of each call: its own line, the status of that number, else the usual."""
        groups: dict[tuple[Who, int | None], Group] = {}
        for seq, track in self._statuses.values():
            groups.setdefault((track.who, seq), track.group)
        for work in self._works.values():
            work.group = work.group or groups.get((work.who, work.call.seq))
        nameless = [work for work in self._works.values() if work.group is None]
        usual = Counter(work.call.seq for work in nameless).most_common(1)
        for work in nameless:
            if work.call.p2p:
                name = f"pair of {work.call.op} {work.call.seq}"
                work.group = Group(name=name, inferred=True)
            elif work.call.seq == usual[0][0]:
                work.group = DEFAULT_GROUP
            else:
                work.group = Group(name=f"another group (call {work.call.seq})", inferred=True)

    def _track(self, status: Track | None, works: list[_Work]) -> Track:
        calls = sorted((work.call for work in works), key=lambda call: call.seq or 0)
        first = min((call.seq for call in calls if call.seq and not call.p2p), default=None)
        track = status or Track(
            who=works[0].who,
            group=works[0].group or DEFAULT_GROUP,
            kind="watchdog",
            source=works[0].source,
            completed=first - 1 if first else None,
        )
        return replace(track, who=self._file.resolve(track.who), calls=tuple(calls[:MAX_CALLS]))


def _timed(call: Call, line: FoundLine, ran: str | None, limit: str | None) -> Call:
    """Add when a call was given up, and so when it was made; later lines repeat how long it ran.

    A call that failed otherwise had not come to its limit: it was made no earlier than that ago.
    """
    time = line.line.time
    lasted = ran or limit
    if lasted is None or time is None or call.given_up_at is not None or _LATER.search(line.text):
        return call
    created = time - int(lasted) / 1000
    return replace(call, created_at=created, given_up_at=time, failed_early=ran is None)


def _key(who: Who, group: Group) -> _Key:
    return who, group.name, group.description


def group_of(text: str) -> tuple[Group | None, int | None]:
    """Return the group a line speaks of, and the speaker's rank within it."""
    groups = list(_GROUP.finditer(text))
    if not groups:
        return None, None
    group = next((group for group in groups if group["rank"] is not None), groups[-1])
    description = None if group["desc"] in ("", "undefined") else group["desc"]
    if group["name"] == "0" and description is None:
        description = "default_pg"
    rank = int(group["rank"]) if group["rank"] else None
    return Group(name=group["name"], description=description), rank


def shape(text: str | None) -> tuple[tuple[int, ...], ...] | None:
    """Return the shape that a list of sizes gives; None where nothing is told."""
    return None if text is None else (tuple(map(int, re.findall(r"\d+", text))),)


def numel(text: str | None) -> tuple[tuple[int, ...], ...] | None:
    """Read a number of elements as a flat shape; -1 as an unsigned number means unknown."""
    if text is None or int(text) == _MINUS_ONE:
        return None
    return ((int(text),),)

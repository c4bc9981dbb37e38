"""The timeline as a trace, for https://ui.perfetto.dev and chrome://tracing.

A track a rank, grouped by host; of more than ``MAX_TRACKS`` ranks a track for those that did the
same. A call lasts until its rank made the next one, for records tell when it was entered and not
when it was left; one that is still pending lasts to the end. Format: the Trace Event Format,
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from whyhang.analyzer.facts import Record, fold, grouped, listed, unfold
from whyhang.analyzer.report import Event, Lane, LaneCall, RankRow, Report

MAX_TRACKS = 256
AFTER = 1.0  # seconds that a call is drawn for, where nothing is known to come after it

Json: TypeAlias = dict[str, Any]


class TraceTrack(Record):
    """A rank, or ranks that did the same: its name, the host it is on, and what it did."""

    name: str
    host: str
    lane: Lane
    rank: int | None = None

    def had(self, event: Event) -> bool:
        """Return whether an event of the lane is one of this rank."""
        return self.rank is None or not event.ranks or self.rank in event.ranks


Slice: TypeAlias = tuple[float, float, LaneCall]
"""A call as it is drawn, from when to when, in seconds."""


def render(report: Report) -> bytes:
    """Write the trace as a JSON object."""
    tracks = list(_tracks(report))
    hosts = {host: number for number, host in enumerate(dict.fromkeys(t.host for t in tracks), 1)}
    end = _end(report)
    events: list[Json] = [
        {"name": "process_name", "ph": "M", "pid": number, "tid": 0, "args": {"name": host}}
        for host, number in hosts.items()
    ]
    thread = 0
    for track in tracks:
        where: Json = {}
        for row in _rows(track.lane, end) or [[]]:
            thread += 1
            where = {"pid": hosts[track.host], "tid": thread}
            events += [
                {"name": "thread_name", "ph": "M", "args": {"name": track.name}, **where},
                {"name": "thread_sort_index", "ph": "M", "args": {"sort_index": thread}, **where},
            ]
            events += [_slice(each, track, where) for each in row]
        if not any(call.start is not None for call in track.lane.calls):
            events.append(_standing(track, end, where))
        own = (report.story[number] for number in track.lane.events)
        events += _instants(filter(track.had, own), where)
    events += _instants([event for event in report.story if not event.ranks], {"pid": 0, "tid": 0})
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "headline": report.headline,
            "verdict": report.verdict,
            "exporter": f"whyhang {report.tool_version}".strip(),
            "start": report.timeline.start,
        },
    }
    return msgspec.json.encode(document) + b"\n"


def _tracks(report: Report) -> Iterator[TraceTrack]:
    """Yield the tracks in the order of ranks, or as lanes if there are too many ranks."""
    lanes = report.timeline.lanes or _standing_alike(report.ranks)
    hosts = {row.rank: row.host or "" for row in report.ranks if row.rank is not None}
    if sum(lane.count for lane in lanes) > MAX_TRACKS:
        for lane in lanes:
            whose = ", ".join(part for part in (lane.ranks, listed(lane.names)) if part)
            count = f"{lane.count} ranks: " if lane.count > 1 else "rank "
            yield TraceTrack(name=count + whose, host="ranks", lane=lane)
        return
    numbered = [(rank, lane) for lane in lanes for rank in unfold(lane.ranks)]
    for rank, lane in sorted(numbered, key=lambda pair: pair[0]):
        yield TraceTrack(name=f"rank {rank}", host=hosts.get(rank) or "ranks", lane=lane, rank=rank)
    for lane in lanes:
        for name in lane.names:
            yield TraceTrack(name=name, host="ranks", lane=lane)


def _standing_alike(rows: Iterable[RankRow]) -> tuple[Lane, ...]:
    """Make lanes of ranks of which nothing is known in time, only where they stand."""
    alike = grouped(rows, lambda row: (row.state, row.activity))
    return tuple(
        Lane(
            ranks=fold(row.rank for row in own if row.rank is not None),
            count=len(own),
            state=state,
            activity=activity,
            names=tuple(row.name for row in own if row.rank is None),
        )
        for (state, activity), own in alike.items()
    )


def _end(report: Report) -> float:
    calls = [call for lane in report.timeline.lanes for call in lane.calls]
    times = [call.end or call.latest or call.start for call in calls]
    times += [event.seconds for event in report.story]
    last = max((time for time in times if time is not None), default=0.0)
    end = report.timeline.end
    return end if end is not None and end > last else last + AFTER


def _rows(lane: Lane, end: float) -> list[list[Slice]]:
    """Lay calls out so that in each row one is inside another or after it, as a trace asks."""
    rows: list[list[Slice]] = []
    for each in _slices(lane.calls, end):
        start, stop, _ = each
        fitting = (row for row in rows if all(not start < other < stop for _, other, _ in row))
        if (row := next(fitting, None)) is None:
            rows.append(row := [])
        row.append(each)
    return rows


def _slices(calls: Sequence[LaneCall], end: float) -> Iterable[Slice]:
    timed = sorted(
        ((call.start, call) for call in calls if call.start is not None), key=lambda pair: pair[0]
    )
    for number, (start, call) in enumerate(timed):
        following = timed[number + 1][0] if number + 1 < len(timed) else end
        done = call.end if call.end is not None else following
        stop = done if call.state == "completed" or call.end is not None else end
        yield start, max(stop, start), call


def _slice(each: Slice, track: TraceTrack, where: Json) -> Json:
    start, end, call = each
    arguments: Json = {"state": call.state, "group": call.group, "seq": call.seq, "op": call.op}
    if call.latest is not None and call.start is not None and track.lane.count > 1:
        arguments["last rank entered"] = f"{call.latest - call.start:.6f} s after the first"
    kind = "pending" if call.state == "pending" else "collective"
    arguments["ranks"] = track.lane.ranks
    return {**_bar(call.name, kind, start, end), "args": arguments, **where}


def _standing(track: TraceTrack, end: float, where: Json) -> Json:
    """Draw where a rank stands over all the time, if none of its calls has a time."""
    lane = track.lane
    arguments = {"state": lane.state, "time": "not known; it stands there now"}
    return {**_bar(lane.activity or lane.state, lane.state, 0, end), "args": arguments, **where}


def _bar(name: str, kind: str, start: float, end: float) -> Json:
    at = _micro(start)
    return {"name": name, "cat": kind, "ph": "X", "ts": at, "dur": _micro(end) - at}


def _instants(events: Iterable[Event], where: Json) -> Iterator[Json]:
    for event in events:
        if event.seconds is None:
            continue
        place = event.source if event.line is None else f"{event.source}:{event.line}"
        yield {
            "name": event.says,
            "cat": "event",
            "ph": "i",
            "s": "t" if where["tid"] else "g",
            "ts": _micro(event.seconds),
            "args": {"read in": place, "lines": event.lines},
            **where,
        }


def _micro(seconds: float) -> int:
    """Count microseconds, as a trace does; whole ones, so that neighbours do not overlap."""
    return round(seconds * 1e6)

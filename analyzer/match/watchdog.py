"""Matchers over what NCCL's watchdog says when it gives up, in the words of the job."""

from __future__ import annotations

import re
from collections import defaultdict

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Call, Record, Track, replace
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.log import Log
from whyhang.analyzer.wording.describe import duration, ranks_in_words

MAX_SIDES = 3  # calls that a title tells apart
_LIMIT = re.compile(r"Timeout\(ms\)=(\d+)")


class GaveUp(Record):
    """A line matches a pattern; fields ``what``, ``on`` and ``after`` say which call it is about.

    They come from the calls that the reader of such lines took apart, and are said only as far
    as all lines agree.
    """

    patterns: tuple[str, ...]

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Fold all lines that match into one hit."""
        hits = Log(patterns=self.patterns)(case)
        tracks = [track for track in case.job.tracks if track.kind == "watchdog" and track.calls]
        limits = {
            told[1]
            for line in case.job.lines_with(self.patterns)
            if (told := _LIMIT.search(line.text))
        }
        after = f" within {duration(int(limits.pop()) / 1000)}" if len(limits) == 1 else " in time"
        fields = {"what": _sides(tracks), "on": "", "after": after}
        if not fields["what"]:
            fields |= {"what": _what(tracks), "on": _on(tracks)}
        return tuple(replace(hit, fields={**hit.fields, **fields}) for hit in hits)


def _sides(tracks: list[Track]) -> str:
    """Say who stands in which call, where these are few and not the same."""
    calls: dict[tuple[str, int | None], set[int]] = defaultdict(set)
    for track in tracks:
        if track.who.rank is None:
            return ""
        first = _first(track)
        calls[first.op, first.seq].add(track.who.rank)
    ranks = [rank for own in calls.values() for rank in own]
    if not 1 < len(calls) <= MAX_SIDES or len(ranks) != len(set(ranks)):
        return ""  # one call, too many, or ranks that stand in several groups' calls
    most = sorted(calls.items(), key=lambda item: (-len(item[1]), item[0][1] or 0))
    return " and ".join(f"{_name(*call)} ({ranks_in_words(own)})" for call, own in most)


def _name(op: str, number: int | None) -> str:
    return f"{op or 'a collective'}{f' #{number}' if number is not None else ''}"


def _what(tracks: list[Track]) -> str:
    calls = [_first(track) for track in tracks]
    ops = {call.op for call in calls if call.op}
    if len(ops) != 1:
        return "collectives" if len(ops) > 1 else "a collective"
    numbers = {call.seq for call in calls}
    number = numbers.pop() if len(numbers) == 1 else None
    return _name(ops.pop(), number)


def _first(track: Track) -> Call:
    return min(track.calls, key=lambda call: call.seq or 0)


def _on(tracks: list[Track]) -> str:
    ranks = {track.who.rank for track in tracks}
    known = {rank for rank in ranks if rank is not None}
    return f" on {ranks_in_words(known)}" if known and len(known) == len(ranks) else ""


def gave_up(*patterns: str) -> GaveUp:
    """Ask for lines of a watchdog that gave up; see ``GaveUp``."""
    return GaveUp(patterns=patterns)

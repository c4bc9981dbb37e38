"""Ranks that were not where the others waited, as the logs of all of them tell."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LastLine, LogLine, Record, Who
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.log import quote
from whyhang.analyzer.rank_state.ends import LOST_PEER
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.wording.describe import ranks_in_words

MAX_QUOTES = 6


class WentOn(Record):
    """Ranks say that they waited in vain; others speak in the logs and say no such thing.

    ``patterns`` are lines of those who waited, by default those of the NCCL watchdog. Only few
    may be missing among them: the only other rank of two, or half as many as waited.
    ``own_logs``: only ranks that have a log of their own count, whose silence is no cut in an
    excerpt.
    """

    patterns: tuple[str, ...]
    own_logs: bool = False

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the ranks that did not wait."""
        lines = case.job.lines_with(self.patterns) if self.patterns else _timed_out(case)
        waited = {line.who.rank for line in lines if line.who.rank is not None}
        last = {
            line.who.rank: line
            for line in case.job.of(LastLine)
            if line.who.rank is not None and (line.ends_log or not self.own_logs)
        }
        lost = {line.who.rank for line in case.job.lines if LOST_PEER.search(line.text)}
        others = sorted(last.keys() - waited - lost)
        few = len(others) * 2 <= len(waited) or (len(others) == len(waited) == 1)
        if not waited or not others or not few or len(waited | last.keys()) < _size(case):
            return ()
        members = [case.job.member_of(Who(rank=rank)) for rank in others]
        spoken = [
            Evidence(source=line.source.file, line=line.source.line, rank=rank, quote=line.text)
            for rank in others
            for line in (last[rank],)
        ]
        return (
            Hit(
                members=tuple(member.id for member in members if member is not None),
                ranks=tuple(r for r, m in zip(others, members, strict=True) if m is None),
                affected=tuple(
                    sorted({m.id for line in lines if (m := case.job.member_of(line.who))})
                ),
                evidence=(*(quote(line) for line in lines[:2]), *spoken[:MAX_QUOTES]),
                fields={"who": ranks_in_words(others), "others": ranks_in_words(waited)},
                at=min((line.time for line in lines if line.time is not None), default=None),
            ),
        )


def _timed_out(case: Case) -> list[LogLine]:
    """Give the lines in which a watchdog names the call it gave up."""
    places = {
        (track.source.file, track.source.line)
        for track in case.job.tracks
        if track.kind == "watchdog" and track.calls
    }
    return [line for line in case.job.lines if (line.source.file, line.source.line) in places]


def _size(case: Case) -> int:
    return case.job.world_size or 0


def went_on(*patterns: str, own_logs: bool = False) -> WentOn:
    """Ask for ranks that did not wait where the others did; see ``WentOn``."""
    return WentOn(patterns=patterns, own_logs=own_logs)

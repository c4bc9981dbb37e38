"""Matchers over the start-up barrier in the store, which counts who has come."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, Record, Who
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.log import is_number, quote
from whyhang.analyzer.wording.describe import ranks_in_words

MAX_QUOTES = 6


class StoreBarrier(Record):
    """Ranks tell of the barrier with which a group begins, and its count is not the world size.

    The patterns give ``world``, ``joined``, ``key`` and the rank that waits as ``waiter``. Those
    who wait have joined; if as many tell of it as have joined, the rest are those who have not.
    ``over``: ask instead for counts above the world size.
    """

    patterns: tuple[str, ...]
    over: bool = False

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit, for the barrier that was told of last."""
        lines = [
            line
            for line in case.job.lines_with(self.patterns)
            if _count(line, "world")
            and (_count(line, "joined") > _count(line, "world")) is self.over
        ]
        if not lines:
            return ()
        last = max(lines, key=lambda line: (line.time or 0, line.source.line or 0))
        ranks = () if self.over else _missing(lines, last)
        found = [case.job.member_of(Who(rank=rank)) for rank in ranks]
        has = "have" if len(ranks) > 1 else "has"
        return (
            Hit(
                members=tuple(member.id for member in found if member is not None),
                ranks=tuple(r for r, m in zip(ranks, found, strict=True) if m is None),
                names_culprit=bool(ranks),
                evidence=tuple(quote(line) for line in _one_each(lines)),
                fields={
                    **last.fields,
                    "not": f", {ranks_in_words(ranks)} {has} not" if ranks else "",
                },
                at=last.time,
            ),
        )


def _missing(lines: list[LogLine], last: LogLine) -> tuple[int, ...]:
    """Say who has not come, where all who have tell of it and they are the most."""
    world, joined = _count(last, "world"), _count(last, "joined")
    came = {
        _count(line, "waiter") for line in lines if line.fields.get("key") == last.fields.get("key")
    }
    if len(came) != joined or not world - joined < joined < world or max(came) >= world:
        return ()
    return tuple(sorted(set(range(world)) - came))


def _one_each(lines: list[LogLine]) -> list[LogLine]:
    seen = {line.fields.get("waiter"): line for line in reversed(lines)}
    return sorted(seen.values(), key=lambda line: line.source.line or 0)[:MAX_QUOTES]


def _count(line: LogLine, name: str) -> int:
    told = line.fields.get(name, "")
    return int(told) if is_number(told) else 0


def store_barrier(*patterns: str, over: bool = False) -> StoreBarrier:
    """Ask for a start-up barrier that not all ranks, or too many, have joined."""
    return StoreBarrier(patterns=patterns, over=over)

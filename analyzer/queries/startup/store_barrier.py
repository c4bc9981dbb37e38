"""The start-up barrier in the store counts who has come, and the count is not the world size."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, ranks_in_words
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.hits import cite_line
from whyhang.analyzer.queries.logs.log_ranks import is_number

MAX_QUOTES = 6


def store_barrier(_case: Case, lines: Sequence[LogLine], *, over: bool = False) -> Iterator[Hit]:
    """Yield one hit for the barrier that was named last, if its count is not the world size.

    Those who wait have joined; if as many say so as have joined, the rest are those who have not.
    ``over``: ask instead for counts above the world size; a rank out of its range is named.
    """
    lines = [
        line
        for line in lines
        if _count(line, "world") and (_count(line, "joined") > _count(line, "world")) is over
    ]
    if not lines:
        return
    last = max(lines, key=lambda line: (line.time or 0, line.source.line or 0))
    waiters = {_count(line, "waiter"): line for line in reversed(lines)}
    out_of_range = sorted(rank for rank, line in waiters.items() if rank >= _count(line, "world"))
    ranks = tuple(out_of_range) if over else _missing(lines, last)
    quoted = sorted(waiters.values(), key=lambda line: line.source.line or 0)[:MAX_QUOTES]
    words = ranks_in_words(ranks)
    words = (
        f", among them {words}" if over else f", {words} {'have' if len(ranks) > 1 else 'has'} not"
    )
    yield Hit(
        ranks=ranks,
        names_culprit=bool(ranks),
        evidence=tuple(cite_line(line) for line in quoted),
        fields={**last.fields, "not": words if ranks else ""},
        at=last.time,
    )


def _missing(lines: Sequence[LogLine], last: LogLine) -> tuple[int, ...]:
    """Return who has not come, where all who have say so."""
    world, joined = _count(last, "world"), _count(last, "joined")
    came = {
        _count(line, "waiter") for line in lines if line.fields.get("key") == last.fields.get("key")
    }
    if len(came) != joined or not joined < world or max(came) >= world:
        return ()
    return tuple(sorted(set(range(world)) - came))


def _count(line: LogLine, name: str) -> int:
    number = line.fields.get(name, "")
    return int(number) if is_number(number) else 0

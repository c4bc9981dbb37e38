"""Reports of stalls: Horovod's check, the store's barrier; who has not come."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, ranks_in_words, whole
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.hits import cite_lines
from whyhang.analyzer.queries.logs.log_ranks import MAX_DIGITS, ranks_in
from whyhang.analyzer.queries.registry import query

MAX_KINDS = 300  # of sets of ranks that are compared with each other
LEAST = 2  # ranks, of which none is the odd one
CUT = ("...]", "...")
SOME = "..."  # stands for all tensors, where lists of them were cut short

_REPORT = re.compile(r"(?P<tensor>\S+) \[(?P<how>missing|ready) ranks: ?(?P<ranks>\d[\d, ]*)")
_LISTED = re.compile(r"^\s*(?:\[\d+\] )?(?P<rank>\d{1,9})!?: \[(?P<tensors>.*?)(?: \.\.\.)?\]?$")


@query
def horovod_stalls(_case: Case, lines: Sequence[LogLine], *, differ: bool) -> Iterator[Hit]:
    """Yield one hit for the ranks that lack every tensor.

    ``differ``: instead, where one rank lacks what another has submitted and the other way round.
    Of whom an earlier report does not tell the same, they are late and not stuck.
    """
    missing, ready, goes_on = _reports(lines)
    lists = _lists(lines)
    if (len(lists) > 1 or _differ(missing) or _differ(ready)) is not differ:
        return
    ranks = _absent(missing, ready)
    if differ:
        ranks = _shortest(lists) if len(lists) > 1 else _alone(ready)
    if ranks or differ:
        first = min(lines, key=lambda line: (line.time or float("inf"), line.source.line or 0))
        yield Hit(
            ranks=ranks,
            names_culprit=bool(ranks) and not goes_on,
            category="slow-not-hung" if goes_on else "",
            evidence=cite_lines(lines),
            at=first.time,
        )


def _reports(lines: Sequence[LogLine]) -> tuple[dict[str, set[int]], dict[str, set[int]], bool]:
    """Return by tensor the ranks that lack it, and the ranks that are said to have submitted it.

    And whether the job went on between two reports: a tensor that waits again, for ranks that had
    submitted it before, has come to its end meanwhile. What was told before is over then.
    """
    texts, goes_on = [line.text for line in lines], False
    missing: dict[str, set[int]] = {}
    ready: dict[str, set[int]] = {}
    cut = any(text.endswith(CUT) for text in texts)  # lists that cannot be compared
    for text in texts:
        for report in _REPORT.finditer(text):
            is_missing, ranks = report["how"] == "missing", set(ranks_in(report["ranks"]))
            into = missing if is_missing else ready
            before = into.get(report["tensor"], ranks)
            if ranks - before if is_missing else before - ranks:
                missing.clear()
                ready.clear()
                goes_on = True
            into[report["tensor"]] = ranks  # the last report counts
    for listed in _last_list(texts):
        names = [SOME] if cut else listed["tensors"].split(", ")
        for tensor in names:
            missing.setdefault(tensor, set()).update(ranks_in(listed["rank"]))
    return missing, ready, goes_on


def _last_list(texts: Iterable[str]) -> list[re.Match[str]]:
    """Return the rows of the last list: ranks go up in each, and those late before have come."""
    rows: list[re.Match[str]] = []
    for row in filter(None, map(_LISTED.match, texts)):
        if rows and int(row["rank"]) <= int(rows[-1]["rank"]):
            rows.clear()
        rows.append(row)
    return rows


def _lists(lines: Sequence[LogLine]) -> list[tuple[int, ...]]:
    """Return the ranks that lack the same first tensor, where all lack one and lists were cut."""
    texts = [line.text for line in lines]
    first = {int(x["rank"]): x["tensors"].partition(",")[0] for x in _last_list(texts)}
    cut = any(text.endswith(CUT) for text in texts)
    if not cut or len(first) <= LEAST or first.keys() != set(range(len(first))):
        return []
    kinds = sorted(set(first.values()))
    return [tuple(rank for rank in sorted(first) if first[rank] == kind) for kind in kinds]


def _shortest(lists: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the fewer of the ranks, where these fall into two kinds."""
    few, many = min(lists, key=len), max(lists, key=len)
    return few if len(lists) == LEAST and len(few) < len(many) else ()


def _differ(by_tensor: dict[str, set[int]]) -> bool:
    """Return whether two tensors each concern a rank that the other does not."""
    kinds = sorted({frozenset(ranks) for ranks in by_tensor.values()}, key=sorted)[:MAX_KINDS]
    return any(one - other and other - one for one, other in combinations(kinds, 2))


def _alone(ready: dict[str, set[int]]) -> tuple[int, ...]:
    """Return the rank that has submitted what no other has, where all others agree on the rest."""
    came = set[int]().union(*ready.values())
    kinds = {frozenset(ranks) for ranks in ready.values()}
    odd = [rank for rank in came if kinds == {frozenset({rank}), frozenset(came - {rank})}]
    return tuple(odd) if len(came) > LEAST and len(odd) == 1 else ()


def _absent(missing: dict[str, set[int]], ready: dict[str, set[int]]) -> tuple[int, ...]:
    """Return which ranks lack every tensor. Ranks are counted from 0 without gaps."""
    if missing:
        return tuple(sorted(set.intersection(*missing.values())))
    came = set[int]().union(*ready.values())
    return tuple(sorted(set(range(max(came, default=0))) - came))


@query
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
    waiters = {_count(line, "waiter"): line for line in lines}  # its last line
    out_of_range = sorted(rank for rank, line in waiters.items() if rank >= _count(line, "world"))
    ranks = tuple(out_of_range) if over else _missing(lines, last)
    quoted = sorted(waiters.values(), key=lambda line: line.source.line or 0)
    words = ranks_in_words(ranks)
    words = (
        f", among them {words}" if over else f", {words} {'have' if len(ranks) > 1 else 'has'} not"
    )
    yield Hit(
        ranks=ranks,
        names_culprit=bool(ranks),
        evidence=cite_lines(quoted),
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
    return whole(line.fields.get(name), MAX_DIGITS) or 0

"""What the drawings of the page are made from, as JSON that is small for 10,000 ranks.

Texts that many ranks share stand once and are referred to by number. ``common.js`` describes the
same shapes as its types.
"""

import itertools
from collections import defaultdict
from typing import Any

import msgspec

from whyhang.analyzer.exports.stacks import count_of, shown_frame
from whyhang.analyzer.facts import fold, unfold
from whyhang.analyzer.report import RankRow, Report
from whyhang.analyzer.reports.finding import cut
from whyhang.analyzer.reports.page import activity_of
from whyhang.analyzer.stacks.usercode import Origin, origin_of_file

MAX_QUOTES = 2000  # pieces of evidence that can be reached from the cell of a rank
MAX_STACKS = 64
MAX_CELLS = 20_000


def _numbers() -> defaultdict[str, int]:
    """Make a table that gives each different text a number, in the order they come."""
    return defaultdict(itertools.count().__next__)


def drawn(report: Report) -> dict[str, Any]:
    """Return the data of all drawings of a report."""
    cells = _cells(report)
    return {
        "verdict": report.verdict,
        "culprits": fold(rank for f in report.findings[:1] for rank in f.culprit_ranks or ()),
        "first": _first(report, cells),
        "ranks": _ranks(cells),
        "count": len(report.ranks),
        "groups": [
            [group.name, group.ranks, group.completed, group.entered, group.behind, group.unseen]
            for group in report.groups
        ],
        "stacks": _stacks(report),
        "evidence": _evidence(report),
        "events": [
            {"seconds": event.seconds, "says": event.says, "ranks": fold(event.ranks)}
            for event in report.story
        ],
        "timeline": msgspec.to_builtins(report.timeline),
        "waits": msgspec.to_builtins(report.waits),
    }


def _cells(report: Report) -> tuple[RankRow, ...]:
    """Return the rows that have a cell: of too many, those that do not wait come first."""
    if len(report.ranks) <= MAX_CELLS:
        return report.ranks
    telling = sorted(
        range(len(report.ranks)), key=lambda n: report.ranks[n].state in {"waiting", "running"}
    )
    return tuple(report.ranks[n] for n in sorted(telling[:MAX_CELLS]))


def _first(report: Report, cells: tuple[RankRow, ...]) -> int:
    """Return the cell to show first: of whom the first finding is about, else where waits end."""
    about = set(report.findings[0].subjects) if report.findings else set()
    ends = {str(unfold(n.ranks)[0]) for n in report.waits.nodes if n.role and n.ranks}
    of_finding = (number for number, row in enumerate(cells) if row.name in about)
    of_graph = (number for number, row in enumerate(cells) if str(row.rank) in ends)
    return next(itertools.chain(of_finding, of_graph), 0)


def _ranks(rows: tuple[RankRow, ...]) -> dict[str, Any]:
    hosts, states, activities, places = (_numbers() for _ in range(4))
    return {
        "rank": [row.rank for row in rows],
        "pid": [row.pid for row in rows],
        "host": [hosts[row.host or ""] for row in rows],
        "state": [states[row.state] for row in rows],
        "activity": [activities[activity_of(row)] for row in rows],
        "place": [places[str(row.location or "")] for row in rows],
        "names": {number: row.name for number, row in enumerate(rows) if row.rank is None},
        "hosts": list(hosts),
        "states": list(states),
        "activities": list(activities),
        "places": list(places),
    }


def _stacks(report: Report) -> dict[str, Any]:
    """Return the stacks, outermost frame first, frames by number, and whose code each is."""
    frames = _numbers()
    groups = [
        {
            "ranks": fold(group.ranks),
            "count": count_of(group),
            "names": group.names[:64],
            "waits": group.waits_for or "",
            "thread": group.thread,
            "frames": [frames[frame] for frame in reversed(group.frames)],
        }
        for group in report.stack_groups[:MAX_STACKS]
    ]
    files = enumerate(shown_frame(frame).file for frame in frames)
    user = [n for n, file in files if file and origin_of_file(file) is Origin.USER]
    return {"groups": groups, "frames": list(frames), "user": user}


def _evidence(report: Report) -> dict[int, list[list[str]]]:
    """Return what is quoted of each rank: where it stands, its words, the findings that do."""
    findings: dict[int, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    pieces = (
        (number, piece, piece.rank)
        for number, finding in enumerate(report.findings, 1)
        for piece in finding.evidence
        if piece.rank is not None
    )
    for number, piece, rank in itertools.islice(pieces, MAX_QUOTES):
        findings[rank][str(piece.place), cut(piece.quote)].append(str(number))
    return {
        rank: [[*place, ", ".join(dict.fromkeys(numbers))] for place, numbers in own.items()]
        for rank, own in findings.items()
    }

"""The table of ranks: those in the same state at the same place share a row."""

import re
from collections.abc import Callable, Collection
from typing import TypeAlias

from whyhang.analyzer.facts import few
from whyhang.analyzer.report import Location, RankRow
from whyhang.analyzer.reports.blocks import Block, Para, Section, Table
from whyhang.analyzer.reports.finding import MAX_RANKS

MAX_ROWS = 12
_MEMBERS = re.compile(r" \([^()]*\branks [^()]*\)")
_PEER = re.compile(r"\brank \d+")
_STEP = re.compile(r",? (?:at|in) step -?\d+$")
MAX_PLACES = 2


def rank_table(rows: tuple[RankRow, ...], culprits: Collection[int]) -> list[Block]:
    """Fold ranks that are in the same state at the same place into one row.

    Culprits stand above, those that wait for others below the rest. Where there are many rows,
    those become one that differ only in the place, then those that differ only in the step, then in
    which of several groups of one kind they are.
    """
    folded: dict[_Alike, list[RankRow]] = {}
    for row in rows:
        alike = (row.rank in culprits, row.state, activity_of(row), _where(row.location))
        folded.setdefault(alike, []).append(row)
    if len(folded) > MAX_ROWS:
        folded = _by_activity(folded, str)
    if len(folded) > MAX_ROWS:
        folded = _by_activity(folded, _at_any_step)
    if len(folded) > MAX_ROWS:
        folded = _by_activity(folded, _of_any_group)
    if not folded:
        return []
    lines = [
        (who(members), state, activity, where)
        for (_, state, activity, where), members in sorted(
            folded.items(), key=lambda item: (not item[0][0], item[0][1] == "waiting")
        )
    ]
    blocks: list[Block] = [
        Section(title="Ranks", name="ranks"),
        Table(
            columns=("ranks", "state", "activity", "in the user's code"),
            rows=tuple(lines[:MAX_ROWS]),
        ),
    ]
    if len(lines) > MAX_ROWS:
        blocks.append(Para(text=f"{len(lines) - MAX_ROWS} more rows are in the JSON report."))
    return blocks


def activity_of(row: RankRow) -> str:
    """Say what a rank does, and at which step, if it noted that."""
    known = row.step is None or _at_any_step(row.activity) != row.activity
    return row.activity if known else f"{row.activity}, at step {row.step}"


def _at_any_step(activity: str) -> str:
    """Leave out which step it is."""
    return _STEP.sub("", activity)


def _where(location: Location | None) -> str:
    """Write a place for a narrow column: of the file its name alone."""
    if location is None:
        return ""
    function = f"{location.function} " if location.function else ""
    line = f":{location.line}" if location.line is not None else ""
    return f"{function}({location.file.rpartition('/')[2]}{line})"


def _of_any_group(activity: str) -> str:
    """Leave out which of several process groups of one kind, and which peer."""
    return _PEER.sub("a rank", _MEMBERS.sub("", activity))


_Alike: TypeAlias = tuple[bool, str, str, str]
"""Whether it is a culprit, its state, activity and place: what ranks of one row share."""


def _by_activity(
    folded: dict[_Alike, list[RankRow]], shorten: Callable[[str], str]
) -> dict[_Alike, list[RankRow]]:
    """Put the rows of one state and activity together that stand at more than a few places."""
    places: dict[tuple[bool, str, str], dict[str, None]] = {}
    for culprit, state, activity, where in folded:
        places.setdefault((culprit, state, shorten(activity)), {})[where] = None
    fewer: dict[_Alike, list[RankRow]] = {}
    for (culprit, state, activity, where), members in folded.items():
        count = len(places[culprit, state, shorten(activity)])
        shown = where if count <= MAX_PLACES else f"{count} places"
        fewer.setdefault((culprit, state, shorten(activity), shown), []).extend(members)
    return fewer


def who(rows: list[RankRow]) -> str:
    """Name a group of rows: folded ranks first, then those without a number."""
    ranks = few((row.rank for row in rows if row.rank is not None), MAX_RANKS)
    names = [row.name for row in rows if row.rank is None]
    if len(names) > 3:
        names = [*names[:2], f"{len(names) - 2} more"]
    return ", ".join(part for part in (ranks, *names) if part)

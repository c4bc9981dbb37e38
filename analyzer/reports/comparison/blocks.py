"""A comparison of two reports as blocks, for a terminal and for Markdown."""

from collections.abc import Iterable

from whyhang.analyzer.facts import few, listed, unfold
from whyhang.analyzer.reports.blocks import Block, Items, Para, Section, Table
from whyhang.analyzer.reports.comparison.records import Alike, Change, Comparison, Group, Ranks
from whyhang.analyzer.reports.finding import MAX_RANKS, cut
from whyhang.analyzer.reports.page import MAX_ROWS

MARKS = {"both": "in both", "gone": "gone", "new": "new"}


def page(comparison: Comparison) -> list[Block]:
    """Lay a comparison out: the answer, the two sides, what moved or is alike, and what not."""
    blocks: list[Block] = [
        Section(title=comparison.headline, level=2),
        Table(
            columns=("", "verdict", "diagnosis", "read in"),
            rows=tuple(
                (label, side.verdict, side.headline, side.name)
                for label, side in (
                    ("before" if comparison.same_job else "first", comparison.before),
                    ("after" if comparison.same_job else "second", comparison.after),
                )
            ),
        ),
    ]
    if comparison.same_job:
        blocks += _ranks("What moved", [r for r in comparison.ranks if r.before != r.after])
        blocks += _ranks("What stayed", [r for r in comparison.ranks if r.before == r.after])
        blocks += _groups(comparison.groups)
    else:
        blocks += _alike("What is alike", (each for each in comparison.alike if each.same))
        blocks += _alike("What differs", (each for each in comparison.alike if not each.same))
    return [*blocks, *_findings(comparison.findings)]


def _ranks(title: str, ranks: list[Ranks]) -> list[Block]:
    if not ranks:
        return []
    rows = []
    for each in ranks[:MAX_ROWS]:
        numbers = few(unfold(each.ranks), MAX_RANKS) if each.ranks else ""
        who = ", ".join(part for part in (numbers, listed(each.names)) if part)
        if each.before == each.after:
            rows.append((who, "still", each.after))
        else:
            rows += [(who, "before", each.before), ("", "after", each.after)]
    table = Table(columns=("ranks", "", ""), rows=tuple(rows))
    blocks: list[Block] = [Section(title=title), table]
    if len(ranks) > MAX_ROWS:
        blocks.append(Para(text=f"{len(ranks) - MAX_ROWS} more rows are in the JSON."))
    return blocks


def _groups(groups: tuple[Group, ...]) -> list[Block]:
    """Show process groups, those that went on first."""
    if not groups:
        return []
    ordered = sorted(groups, key=lambda group: not group.moved)[:MAX_ROWS]
    rows = [
        (group.name, _step(group.entered), _step(group.completed), _step(group.behind))
        for group in ordered
    ]
    columns = ("group", "entered", "completed by all", "behind")
    return [Section(title="Calls"), Table(columns=columns, rows=tuple(rows))]


def _step(values: tuple[int | str | None, int | str | None]) -> str:
    before, after = ("" if value is None else str(value) for value in values)
    return after if before == after else f"{before or 'none'} → {after or 'none'}"


def _alike(title: str, alike: Iterable[Alike]) -> list[Block]:
    items = tuple(f"{each.kind}: {cut(each.says)}" for each in alike)
    return [Section(title=title), Items(items=items)] if items else []


def _findings(changes: tuple[Change, ...]) -> list[Block]:
    if not changes:
        return []
    rows = []
    for change in changes[:MAX_ROWS]:
        worth = [f"{each:.0%}" for each in change.confidence if each is not None]
        confidence = " → ".join(dict.fromkeys(worth))
        rows.append((MARKS[change.status], confidence, f"{change.title} ({change.signature})"))
    return [Section(title="Findings"), Table(columns=("", "", "finding"), rows=tuple(rows))]

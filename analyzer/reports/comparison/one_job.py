"""One job at two times: its ranks are compared one by one."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import counted, few, fold, unfold
from whyhang.analyzer.report import ProcessGroup, RankRow, Report
from whyhang.analyzer.reports.comparison.records import Group, Ranks
from whyhang.analyzer.reports.finding import place_line
from whyhang.analyzer.reports.rank_rows import activity_of

SAME_START = 1.0  # seconds that two readings of one first event may differ by


def is_same_job(before: Report, after: Report) -> bool:
    """Return whether two reports tell of one job: the same processes, or the same first event."""
    pids = [{(r.host, r.pid) for r in each.ranks if r.pid is not None} for each in (before, after)]
    if all(pids):
        return not pids[0].isdisjoint(pids[1])
    starts = before.timeline.start, after.timeline.start
    if starts[0] is not None and starts[1] is not None:
        return abs(starts[0] - starts[1]) <= SAME_START
    here, there = before.job, after.job
    return here.hosts is not None and (here.hosts, here.world_size) == (
        there.hosts,
        there.world_size,
    )


def _standing(row: RankRow | None) -> str:
    if row is None:
        return "not seen"
    activity = f": {activity_of(row)}" if row.activity else ""
    place = f" at {place_line(row.location)}" if row.location is not None else ""
    return f"{row.state}{activity}{place}"


def rank_moves(before: Report, after: Report) -> Iterator[Ranks]:
    """Fold ranks that made the same move; those that moved first."""
    rows = [{row.name or row.rank: row for row in report.ranks} for report in (before, after)]
    alike: dict[tuple[str, str], list[RankRow]] = {}
    for key in dict.fromkeys((*rows[0], *rows[1])):
        pair = rows[0].get(key), rows[1].get(key)
        row = pair[0] or pair[1]
        if row is not None:
            alike.setdefault((_standing(pair[0]), _standing(pair[1])), []).append(row)
    for (old, new), own in sorted(alike.items(), key=lambda item: item[0][0] == item[0][1]):
        yield Ranks(
            ranks=fold(row.rank for row in own if row.rank is not None),
            count=len(own),
            before=old,
            after=new,
            names=tuple(row.name for row in own if row.rank is None),
        )


def group_moves(before: Sequence[ProcessGroup], after: Sequence[ProcessGroup]) -> Iterator[Group]:
    """Yield how far the process groups of both reports have come."""
    known = {group.name: group for group in before}
    for group in after:
        old = known.get(group.name)
        if old is not None:
            yield Group(
                name=group.name,
                entered=(old.entered, group.entered),
                completed=(old.completed, group.completed),
                behind=(old.behind, group.behind),
            )


def what_moved(
    before: Report, after: Report, ranks: Sequence[Ranks], groups: Sequence[Group]
) -> str:
    """Say in a sentence which ranks and groups went on, and whether the verdict changed."""
    moved = [each for each in ranks if each.before != each.after]
    count, whole = sum(each.count for each in moved), sum(each.count for each in ranks)
    on = [group.name for group in groups if group.moved]
    if not whole:
        sentence = "Neither report says where any rank stands"
    elif not moved:
        many = whole > 1
        stand = "stand where they stood" if many else "stands still"
        sentence = f"Nothing moved: {'all ' * many}{counted(whole, 'rank')} {stand}"
    elif count == whole:
        sentence = f"{'All ' * (whole > 1)}{counted(whole, 'rank')} moved"
    else:
        which = few(rank for each in moved for rank in unfold(each.ranks))
        sentence = f"{count} of {counted(whole, 'rank')} moved{f' ({which})' if which else ''}"
    if on:
        sentence += f"; calls went on in {', '.join(on[:3])}{', …' if len(on) > 3 else ''}"
    elif moved and groups:
        sentence += "; no call went on in any process group"
    if before.verdict != after.verdict:
        sentence += f"; {before.verdict} before, {after.verdict} after"
    return f"{sentence}."

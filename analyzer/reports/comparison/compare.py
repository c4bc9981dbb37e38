"""Compare two reports: what moved and what stayed, or what two incidents have in common."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import counted, few, fold, listed, unfold
from whyhang.analyzer.report import Finding, RankRow, Report
from whyhang.analyzer.reports.comparison.records import Change, Comparison, Group, Ranks, Side
from whyhang.analyzer.reports.comparison.two_incidents import common_and_different, what_is_alike
from whyhang.analyzer.reports.page import activity_of


def compare(
    before: Report, after: Report, names: tuple[str, str], *, same_job: bool | None = None
) -> Comparison:
    """Compare two reports that have gone through the gate.

    ``same_job`` None: see by the reports themselves whether they are of one job.
    """
    one = is_same_job(before, after) if same_job is None else same_job
    sides = [
        Side(name=name, verdict=r.verdict, headline=r.headline, world_size=r.job.world_size)
        for name, r in zip(names, (before, after), strict=True)
    ]
    ranks = tuple(rank_moves(before, after)) if one else ()
    known = {group.name: group for group in before.groups if one}
    groups = tuple(
        Group(
            name=group.name,
            entered=(old.entered, group.entered),
            completed=(old.completed, group.completed),
            behind=(old.behind, group.behind),
        )
        for group in after.groups
        if (old := known.get(group.name)) is not None
    )
    alike = () if one else tuple(common_and_different(before, after))
    return Comparison(
        headline=what_moved(before, after, ranks, groups) if one else what_is_alike(alike),
        same_job=one,
        before=sides[0],
        after=sides[1],
        ranks=ranks,
        groups=groups,
        findings=tuple(_changes(before.findings, after.findings)),
        alike=alike,
    )


def _changes(before: Sequence[Finding], after: Sequence[Finding]) -> Iterator[Change]:
    """Yield the findings of both in the order of the second report, then those that are gone."""
    left = list(before)
    for new in after:
        old = next((each for each in left if each.signature == new.signature), None)
        if old is not None:
            left.remove(old)
        yield Change(
            signature=new.signature,
            status="new" if old is None else "both",
            title=new.title,
            culprits=(_culprits(old), _culprits(new)),
            confidence=(old.confidence if old is not None else None, new.confidence),
        )
    for old in left:
        yield Change(
            signature=old.signature,
            status="gone",
            title=old.title,
            culprits=(_culprits(old), ""),
            confidence=(old.confidence, None),
        )


def _culprits(finding: Finding | None) -> str:
    return fold(finding.culprit_ranks or ()) if finding is not None else ""


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
    alike = (here.hosts, here.world_size) == (there.hosts, there.world_size)
    return here.hosts is not None and alike


def _standing(row: RankRow | None) -> str:
    if row is None:
        return "not seen"
    activity = f": {activity_of(row)}" if row.activity else ""
    place = f" at {row.location}" if row.location is not None else ""
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
        sentence += f"; calls went on in {listed(on)}"
    elif moved and groups:
        sentence += "; no call went on in any process group"
    if before.verdict != after.verdict:
        sentence += f"; {before.verdict} before, {after.verdict} after"
    return f"{sentence}."

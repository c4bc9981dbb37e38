"""Compare two reports: what moved and what stayed, or what two incidents have in common."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import fold
from whyhang.analyzer.report import Finding, Report
from whyhang.analyzer.reports.comparison.one_job import (
    group_moves,
    is_same_job,
    rank_moves,
    what_moved,
)
from whyhang.analyzer.reports.comparison.records import Change, Comparison, Side
from whyhang.analyzer.reports.comparison.two_incidents import common_and_different, what_is_alike


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
    findings = tuple(_changes(before.findings, after.findings))
    if one:
        ranks, groups = (
            tuple(rank_moves(before, after)),
            tuple(group_moves(before.groups, after.groups)),
        )
        headline = what_moved(before, after, ranks, groups)
        return Comparison(
            headline=headline,
            same_job=True,
            before=sides[0],
            after=sides[1],
            ranks=ranks,
            groups=groups,
            findings=findings,
        )
    alike = tuple(common_and_different(before, after))
    return Comparison(
        headline=what_is_alike(alike),
        same_job=False,
        before=sides[0],
        after=sides[1],
        findings=findings,
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

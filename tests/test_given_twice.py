"""A job that was given twice is one job: a copy, or a bundle with pseudonyms, accuses nobody."""

from __future__ import annotations

from small_jobs import ALL_REDUCE, ELSEWHERE, dump, process, report_of

from whyhang.analyzer.facts import Fact, Source, Trust, Who, replace
from whyhang.analyzer.report import Report


def bundle(name: str, hosts: str, *, later: float = 0.0, started: float = 500.25) -> list[Fact]:
    """Make a bundle of three ranks, one a host, of which rank 2 is elsewhere."""
    facts: list[Fact] = []
    for rank, text in enumerate((ALL_REDUCE, ALL_REDUCE, ELSEWHERE)):
        host = f"{hosts}{rank}"
        who = Who(rank=rank, pid=16, trust=Trust.ENVIRONMENT, host=host)
        for look in (0, 1):
            known = process(rank, look=look, environ={"WORLD_SIZE": "3", "RANK": str(rank)})
            stack = dump(rank, text, look=look, pid=16)
            folder = f"{name}/{host}"
            facts += [
                replace(
                    known,
                    who=who,
                    started_at=started + rank,
                    taken_at=1000.5 + later + look,
                    source=Source(file=f"{folder}/processes.look{look}.json"),
                ),
                replace(stack, who=who, source=Source(file=f"{folder}/rank{rank}.look{look}.json")),
            ]
    return facts


def says(report: Report) -> tuple[str, tuple[int, ...] | None, int]:
    first = report.findings[0]
    return report.headline, first.culprit_ranks, len(report.ranks)


ALONE = says(report_of(bundle("a", "n")))


def test_a_copy_of_a_bundle_changes_nothing_but_a_gap() -> None:
    """It is the very look: its moments are the same."""
    twice = report_of([*bundle("a", "n"), *bundle("b", "n")])
    assert says(twice) == ALONE
    (gap,) = [gap for gap in twice.gaps if "given twice" in gap]
    assert gap.startswith("b/n0 (and 2 more alike)")


def test_a_bundle_with_pseudonyms_is_of_the_same_job() -> None:
    """Of this look or a later one: the processes are the same, whatever the hosts' names."""
    for later in (0.0, 60.0):
        twice = report_of([*bundle("a", "n"), *bundle("b", "host-x", later=later)])
        assert says(twice) == ALONE
        assert "init-duplicate-rank" not in {finding.signature for finding in twice.findings}


def test_two_jobs_are_two() -> None:
    """A second start of the job on other hosts has processes of its own, by when they began."""
    both = report_of([*bundle("a", "n"), *bundle("b", "m", started=700.0)])
    assert not [gap for gap in both.gaps if "given twice" in gap]
    assert "init-duplicate-rank" in {finding.signature for finding in both.findings}

"""A job of which only a part was looked at: what was not seen is neither dead nor arrived."""

from __future__ import annotations

import pytest
from small_jobs import ALL_REDUCE, ELSEWHERE, dump, process, report_of, still

from whyhang.analyzer.facts import Fact, LogLine, PartOfHost, Source, Trust, Who, WorldSize, replace
from whyhang.analyzer.facts.exceptions import Raised

SEEN = Source(file="claims.json")


def _half(address: str, *, inside: bool = False) -> list[Fact]:
    """Two of four ranks in all_reduce, as whyhang saw them on one host or in one container."""
    environ = {"WORLD_SIZE": "4", "MASTER_ADDR": address}
    facts: list[Fact] = []
    for rank in (0, 1):
        for look in (0, 1):
            facts += [process(rank, look=look, environ=environ), dump(rank, ALL_REDUCE, look=look)]
    return [*facts, PartOfHost(who=Who(host="n"), source=SEEN)] if inside else facts


def test_half_of_the_ranks_are_not_all() -> None:
    """Of a job on two hosts one was looked at: who has not come may be on the other."""
    report = report_of(_half("10.0.0.7"))
    first = report.findings[0]

    assert first.title.startswith("Of the 4 ranks 0-1 stand in all_reduce")
    assert "ranks 2-3 were not looked at" in first.title
    assert "no rank is missing" not in first.explanation
    assert first.confidence < 0.5


def test_what_a_container_hides_is_not_dead() -> None:
    """The ranks meet at a loopback address; from outside of any container all would be seen."""
    outside = report_of(_half("127.0.0.1"))
    inside = report_of(_half("127.0.0.1", inside=True))

    assert (outside.findings[0].category, outside.findings[0].culprit_ranks) == (
        "rank-died",
        (2, 3),
    )
    assert all(finding.category != "rank-died" for finding in inside.findings)
    assert not inside.findings[0].culprit_ranks


@pytest.mark.parametrize("rank", [1, None])
def test_an_exception_of_a_rank_that_lives_was_caught(rank: int | None) -> None:
    """A traceback in the log of a job that goes on ended nobody."""
    who = Who(rank=rank, trust=Trust.CONTENT) if rank is not None else Who()
    line = LogLine(
        who=who,
        text="ValueError: bad row",
        source=Source(file="logs/train.log", line=26),
        raised=Raised(type="ValueError", message="bad row"),
    )
    facts = still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE})
    report = report_of([*facts, line])

    assert report.findings[0].signature != "uncaught-exception"
    assert all("ValueError" not in finding.title for finding in report.findings)


def test_an_exception_of_a_rank_that_is_gone_ended_it() -> None:
    """Near miss: of the rank that raised, no process is left."""
    line = LogLine(
        who=Who(rank=2, trust=Trust.CONTENT),
        text="ValueError: bad row",
        source=Source(file="logs/train.log", line=26),
        raised=Raised(type="ValueError", message="bad row"),
    )
    size = WorldSize(size=3, who=Who(), source=SEEN)
    facts = still({0: ALL_REDUCE, 1: ALL_REDUCE}, world=3)
    facts = [replace(f, environ={"WORLD_SIZE": "3"}) if hasattr(f, "environ") else f for f in facts]
    report = report_of([*facts, line, size])

    assert (report.findings[0].signature, report.findings[0].culprit_ranks) == (
        "uncaught-exception",
        (2,),
    )

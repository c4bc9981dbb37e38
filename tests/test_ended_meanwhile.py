"""Jobs and ranks that come to their end while they are looked at."""

from __future__ import annotations

import pytest
from log_docs import lines, read_log
from small_jobs import ALL_REDUCE, ELSEWHERE, case_of, dump, process, report_of, still

from whyhang.analyzer.commands.left_open import all_in_collectives, some_have_ended
from whyhang.analyzer.facts import Fact, Trust, Who, replace


def ended(rank: int, world: int) -> list[Fact]:
    """Make a rank that is at work in the first snapshot and gone in the second."""
    environ = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1"}
    alive, gone = process(rank, environ=environ), process(rank, state="X", look=1, environ=environ)
    return [alive, dump(rank, ELSEWHERE), gone]


def test_a_job_that_ended_stands_first() -> None:
    """It does not hang any more, and may well have come to its planned end."""
    report = report_of([*ended(0, 2), *ended(1, 2)])

    assert report.verdict == "inconclusive"
    assert report.headline == (
        "The job ended while it was looked at: ranks 0-1 had a process before and none later."
    )
    assert {row.state for row in report.ranks} == {"exited"}


def test_a_job_that_ended_as_planned_is_healthy() -> None:
    """Its logs, read when it was over, show an end and nothing wrong."""
    log = "".join(f"epoch {epoch} done\n" for epoch in range(4)) + "training finished\n"
    report = report_of([*ended(0, 2), *ended(1, 2), *read_log(log)])

    assert report.verdict == "healthy"
    assert "ended while it was looked at" in report.headline


def test_a_rank_that_was_gone_before_the_first_snapshot_has_ended_meanwhile() -> None:
    """It lived when the job was found; of a zombie that is not known."""
    gone = [process(rank, state="X", environ={"WORLD_SIZE": "2"}) for rank in range(2)]
    dead = [process(rank, state="Z", environ={"WORLD_SIZE": "2"}) for rank in range(2)]

    assert report_of(gone).headline.startswith("The job ended while it was looked at: ranks 0-1")
    assert report_of(dead).findings[0].category == "rank-died"


@pytest.mark.parametrize(("alive", "asked"), [((0,), [1]), ((0, 1), []), ((), [])])
def test_while_ranks_end_one_after_the_other_one_waits_for_the_last(
    alive: tuple[int, ...], asked: list[int]
) -> None:
    """What it prints may tell that the end was planned."""
    gone = [fact for rank in {0, 1} - {*alive} for fact in ended(rank, 2)]
    case = case_of([*gone, *still(dict.fromkeys(alive, ELSEWHERE), world=2)])

    assert some_have_ended(case) == asked


def test_a_rank_that_ended_and_for_which_nobody_waits_is_no_cause() -> None:
    """At the end of a job ranks end one after the other."""
    report = report_of([*ended(0, 2), *still({1: ELSEWHERE}, world=2)])

    assert not [each for each in report.findings if each.category == "rank-died"]


@pytest.mark.parametrize("waiting", [1, 3])
def test_a_rank_that_ended_and_for_which_others_wait_is_the_cause(waiting: int) -> None:
    """They will not notice before their timeout."""
    stacks = dict.fromkeys(range(1, waiting + 1), ALL_REDUCE)
    report = report_of([*ended(0, waiting + 1), *still(stacks, world=waiting + 1)])

    assert report.findings[0].category == "rank-died"
    assert report.findings[0].culprit_ranks == (0,)
    assert report.verdict == "hung"


def test_a_number_that_only_a_log_names_leaves_no_question_unasked() -> None:
    """Workers that went on in a smaller world have other ranks than their lines begin with."""
    (line,) = lines("step 7\n", "step 7")
    line = replace(line, who=Who(rank=5, trust=Trust.PREFIX))
    case = case_of([*still({0: ALL_REDUCE, 1: ALL_REDUCE}, world=2), line])

    assert len(case.states) == 3
    assert all_in_collectives(case) == [0, 1]


def test_a_rank_that_ended_before_the_last_one_did_is_no_cause() -> None:
    """The last one computes for itself, and then the job is over."""
    report = report_of(ended(1, 3))

    assert report.verdict == "inconclusive"
    assert not report.findings

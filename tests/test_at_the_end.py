"""Ranks whose interpreter has ended: what they wait for is told by elimination."""

from __future__ import annotations

import pytest
from small_jobs import ELSEWHERE, case_of, dump, process, report_of

from whyhang.analyzer.facts import Fact, Gap, NoInterpreter, Source, Who, replace
from whyhang.collectors.stacks.pyspy import lacks_interpreter


def _ended(rank: int, *, age: float = 100.0) -> list[Fact]:
    facts: list[Fact] = [
        replace(
            process(rank, look=look, environ={"OMPI_COMM_WORLD_RANK": str(rank)}),
            started_at=1000.0 - age,
        )
        for look in (0, 1)
    ]
    who = Who(rank=rank, pid=1000 + rank)
    ended = NoInterpreter(who=who, source=Source(file="claims.json"))
    return [*facts, ended]


def _running(rank: int) -> list[Fact]:
    facts: list[Fact] = []
    for look in (0, 1):
        facts += [process(rank, look=look), dump(rank, ELSEWHERE, look=look)]
    return facts


def test_ranks_behind_their_program_wait_in_mpi_finalize() -> None:
    """All but one rank of an MPI job have ended Python and live on: the one is waited for."""
    finding = report_of([*_ended(0), *_running(1), *_ended(2)]).findings[0]

    assert finding.category == "mpi-missing-rank"
    assert finding.culprit_ranks == (1,)
    assert finding.affected_ranks == (0, 2)


@pytest.mark.parametrize("facts", [[*_ended(0), *_ended(1)], [*_ended(0, age=1.0), *_running(1)]])
def test_a_process_that_may_only_have_begun_is_not_at_its_end(facts: list[Fact]) -> None:
    """Without another rank's stack, or just after the start, py-spy's word proves no end."""
    assert case_of(facts).states[0].place is None
    assert all(f.category != "mpi-missing-rank" for f in report_of(facts).findings)


def test_py_spys_word_for_a_missing_interpreter() -> None:
    """Only the failure to find one says so; a missing right does not."""
    assert lacks_interpreter("Error: Failed to find a python interpreter in the .data section")
    assert not lacks_interpreter("Error: Permission Denied")


def test_no_gap_is_reported_where_the_missing_stack_says_enough() -> None:
    """py-spy's failure is the evidence; to tell it as missing would send people to upgrade it."""
    gap = Gap(what="stacks of rank 0, process 1000", why="none", who=Who(rank=0, pid=1000))
    other = Gap(what="stacks of rank 1, process 1001", why="none", who=Who(rank=1, pid=1001))

    gaps = report_of([*_ended(0), *_running(1), *_ended(2), gap, other]).gaps

    assert not any("rank 0" in text for text in gaps)
    assert any("rank 1" in text for text in gaps)

"""Logs that name no rank, beside others that do: the numbers in their names tell whose they are."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

STEPS = "".join(f"it {step} [{step}/200] nll 2.{step:03}\n" for step in range(60, 100))
LATE = (
    "[rank{0}]:[E1123 03:40:24.12345 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=401, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=1800000) ran for 1800012 milliseconds before timing out.\n"
)
ELSEWHERE = STEPS + "running the validation\nval 0/900\nval 100/900\n"


@pytest.mark.parametrize(
    "name", ["n0_local{}.log", "run7/part-{:02}/console.txt", "train-{}-b.log"]
)
@pytest.mark.parametrize("first", [0, 8])
def test_the_log_without_a_rank_is_that_of_the_number_in_its_name(name: str, first: int) -> None:
    """Of the others the number and the rank are as far apart, also on a second node."""
    files = {name.format(n): STEPS + LATE.format(n + first) for n in (0, 1, 3)}
    report = diagnosed_files({**files, name.format(2): ELSEWHERE})

    assert report.findings[0].category == "missing-rank-in-collective"
    assert report.findings[0].culprit_ranks == (2 + first,)


@pytest.mark.parametrize(
    ("ranks", "name"),
    [
        ((0, 1, 3), "launcher.log"),  # no number
        ((0, 2, 7), "n0_local2.log"),  # ranks that do not follow the numbers
        ((0,), "n0_local2.log"),  # one file is none to compare with
    ],
)
def test_numbers_that_say_nothing(ranks: tuple[int, ...], name: str) -> None:
    numbered = zip((0, 1, 3), ranks, strict=False)
    files = {f"n0_local{n}.log": STEPS + LATE.format(rank) for n, rank in numbered}
    report = diagnosed_files({**files, name: ELSEWHERE})

    assert not any(finding.culprit_ranks for finding in report.findings)


@pytest.mark.parametrize("name", ["slurm-88123-{}.out", "bert-4711.{}.log", "out_20991_{}.txt"])
def test_tasks_behind_the_number_of_a_job(name: str) -> None:
    """The number of the job may hold that of the task."""
    at_work = STEPS + "next shard, building its index\n"
    files = {name.format(n): STEPS + "it 100 [100/200] nll 2.1\n" for n in range(3)}
    report = diagnosed_files({**files, name.format(3): at_work})

    assert report.findings[0].culprit_ranks == (3,)


def test_jobs_of_an_array_are_no_ranks() -> None:
    """So Slurm names their outputs where nobody says otherwise."""
    files = {f"slurm-88123_{n}.out": STEPS + "it 100 [100/200] nll 2.1\n" for n in range(3)}
    report = diagnosed_files({**files, "slurm-88123_3.out": STEPS})

    assert not any(finding.culprit_ranks for finding in report.findings)

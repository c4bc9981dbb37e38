"""Numbers of ranks that no job has."""

from __future__ import annotations

import time

import pytest
from log_docs import diagnosed

from whyhang.analyzer.facts import MAX_RANKS
from whyhang.collectors.logs.lines.signs_of_life import sign

TIMED_OUT = (
    "[rank{prefix}]:[E1121 10:00:00.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
)


@pytest.mark.parametrize("number", [MAX_RANKS, 999_999_999, 10**30])
def test_a_rank_beyond_any_job_is_nobody(number: int) -> None:
    """A damaged number makes no members up: the line counts, whom it is about is not known."""
    report = diagnosed({None: TIMED_OUT.format(prefix=number, rank=number)})
    assert all(row.rank is None for row in report.ranks)
    assert report.verdict == "hung"
    assert any("larger than any job" in str(gap) for gap in report.gaps)


def test_a_world_beyond_any_job_is_not_filled() -> None:
    """A communicator of 2^31 ranks is not listed rank by rank."""
    line = "n1:12:34 [0] NCCL INFO comm 0x7f rank {} nranks {} cudaDev 0 busId 1000 - Init START"
    report = diagnosed({None: "\n".join(line.format(rank, 1 << 31) for rank in range(3))})
    assert report.job.world_size is None
    assert len(report.ranks) <= 3


def test_thousands_of_digits_are_no_sign_of_life_and_take_no_time() -> None:
    """A dump of digits in a log is passed over in a moment, not in minutes."""
    before = time.process_time()
    assert sign("9" * 60_000) is None
    assert time.process_time() - before < 2
    assert sign("9" * 100 + " it/s") is not None

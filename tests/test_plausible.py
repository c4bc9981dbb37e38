"""Numbers of ranks that no job has."""

from __future__ import annotations

import time

import pytest
from log_docs import diagnosed, diagnosed_files

from whyhang.analyzer.facts import MAX_RANKS, Exit, Fact, LogLine, Source, Trust, Who
from whyhang.analyzer.job.inference.believed import without_pids
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


ENDED = (
    "W0511 00:00:12.200000 90 torch/distributed/elastic/multiprocessing/api.py:897] "
    "Sending process {} closing signal SIGTERM\n"
)
DUMPED = """\
Process {0}: sglang::scheduler_TP{1}
Python v3.10.12 (/usr/bin/python3.10)

Thread {0} (active): "MainThread"
    broadcast (torch/distributed/distributed_c10d.py:2730)
    recv_requests (sglang/srt/managers/scheduler.py:1011)

"""


def test_pids_of_what_the_launcher_ended_are_no_ranks() -> None:
    """Lines of torchrun that differ in a pid are not those of ranks with that number."""
    log = "".join(f"[rank{r}]: step 4 loss 0.2\n" for r in range(4))
    log += "".join(ENDED.format(pid) for pid in range(101, 109))
    report = diagnosed({None: log})
    assert {row.rank for row in report.ranks} <= {*range(8), None}
    assert not any(rank > 7 for moment in report.story for rank in moment.ranks)


def test_pids_of_dumps_are_no_ranks() -> None:
    """The heads of py-spy's dumps, which are alike but for the pid, are of no ranks 7700-7703."""
    log = "".join(DUMPED.format(7700 + n, n) for n in range(4))
    report = diagnosed_files({"sglang.log": log})
    assert {row.rank for row in report.ranks} == {0, 1, 2, 3}


def test_known_pids_are_not_taken_for_ranks_and_ranks_not_for_pids() -> None:
    """A number that words alone tell is no rank where it is a pid that the job has no rank for."""
    source = Source(file="a.log")

    def line(rank: int | None, trust: Trust, pid: int | None = None) -> LogLine:
        who = Who(rank=rank, pid=pid, trust=trust)
        return LogLine(text="", who=who, source=source)

    def ranks(*facts: Fact) -> list[int | None]:
        return [fact.who.rank for fact in without_pids(facts) if isinstance(fact, LogLine)]

    ended = Exit(who=Who(pid=7), quote="", source=source)
    said, named = line(7, Trust.INFERRED), line(7, Trust.PREFIX)
    assert ranks(ended, line(0, Trust.PREFIX), said) == [0, None]
    assert ranks(ended, line(0, Trust.PREFIX), said, named) == [0, 7, 7]
    assert ranks(ended, line(9, Trust.PREFIX), said) == [9, 7]

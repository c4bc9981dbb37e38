"""What the ranks did that did not wait: long work, an end, a call that they came to too late."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Finding


def first(**files: str) -> Finding | None:
    """Return what comes first in the diagnosis of some logs."""
    named = {f"{name}.log": text for name, text in files.items()}
    return next(iter(diagnosed_files(named).findings), None)


def gave_up(rank: int, at: str = "10:00:45", ran: int = 45008) -> str:
    """Return the line of a watchdog whose limit is 45 s."""
    return (
        f"[rank{rank}]:[E724 {at}.940000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=8, "
        f"NumelOut=8, Timeout(ms)=45000) ran for {ran} milliseconds before timing out.\n"
    )


def failed(rank: int, at: str) -> str:
    """Return the line of a call that failed before its limit."""
    return (
        f"[rank{rank}]:[E724 {at}.940000000 ProcessGroupNCCL.cpp:542] [Rank {rank}] Collective "
        "WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=45000) raised the "
        "following async exception: NCCL error: remote process exited\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "moved the weights in 71.5 s",
        "wrote 9 shards after 120 seconds",
        "Map: 70%|#| [01:20<00:30]",
    ],
)
def test_work_that_outlasts_the_limit(line: str) -> None:
    """The time that a rank prints is longer than the others waited."""
    finding = first(job=gave_up(0) + f"[rank2]: {line}\n" + gave_up(1))

    assert finding is not None
    assert (finding.signature, finding.culprit_ranks) == ("work-outlasts-limit", (2,))


@pytest.mark.parametrize("line", ["moved the weights in 31.5 s", "at 900 samples/s", "epoch 9000"])
def test_work_that_does_not(line: str) -> None:
    """Shorter work, a rate and a number are no reason."""
    finding = first(job=gave_up(0) + f"[rank2]: {line}\n" + gave_up(1))

    assert finding is None or finding.signature != "work-outlasts-limit"


@pytest.mark.parametrize(
    "line", ["destroying the process group", "training finished", "tearing down the trainer"]
)
def test_a_rank_at_its_end(line: str) -> None:
    """Its last words are of an end, while the only other rank waited."""
    finding = first(job=f"[rank1]: {line}\n" + gave_up(0))

    assert finding is not None
    assert (finding.signature, finding.culprit_ranks) == ("rank-left-others-wait", (1,))


def test_ends_that_say_nothing() -> None:
    """Who waited as well, or of several who ended."""
    both = first(job="[rank1]: training finished\n" + gave_up(0) + gave_up(1))
    most = first(job="".join(f"[rank{rank}]: finished\n" for rank in (1, 2, 3)) + gave_up(0))

    assert "rank-left-others-wait" not in {each.signature for each in (both, most) if each}


def test_a_call_that_outlived_the_limit_of_the_others() -> None:
    """It failed before its own limit, long after theirs: its rank came to it when they had gone."""
    finding = first(
        rank0=gave_up(0, "10:00:45"), rank1=gave_up(1, "10:00:46"), rank2=failed(2, "10:01:10")
    )

    assert finding is not None
    assert (finding.signature, finding.culprit_ranks) == ("rank-came-late", (2,))


def test_a_call_that_failed_with_those_of_the_others() -> None:
    """Within the limit of the others it was there in time."""
    finding = first(
        rank0=gave_up(0, "10:00:45"), rank1=gave_up(1, "10:00:46"), rank2=failed(2, "10:00:47")
    )

    assert finding is None or finding.signature != "rank-came-late"

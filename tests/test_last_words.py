"""How a rank's own log ends: with the loss of a peer, or in silence where others gave up."""

from __future__ import annotations

import pytest
from log_docs import diagnosed, diagnosed_files

LATE = (
    "[rank{0}]:[E1206 18:44:16.9 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)
PEER_LOSSES = (
    (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] "
        "Connection closed by peer [10.1.0.9]:38112"
    ),
    (
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error "
        "[127.0.0.1]:2203: Connection reset by peer."
    ),
    (
        "torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.hpp:268, remote process "
        "exited or there was a network error, NCCL version 2.21.5"
    ),
)


def ended_with(last: str, rank: int) -> str:
    """Write a traceback that ends with ``last``, from a line of the program's own."""
    lines = (
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 188, in main',
        "    dist.all_gather(parts, x)",
        last,
    )
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


@pytest.mark.parametrize("last", PEER_LOSSES)
def test_a_rank_that_raised_for_the_loss_of_a_peer_has_ended(last: str) -> None:
    """Its traceback is no stack of a living process: the job failed, and it is at work nowhere."""
    report = diagnosed({None: ended_with(last, 0) + ended_with("ValueError: bad shape", 1)})

    assert report.verdict == "failed"
    assert report.findings[0].culprit_ranks == (1,)
    rows = {row.rank: row for row in report.ranks}
    assert rows[0].state == "exited"
    assert rows[0].activity.startswith("ended: ")


def test_a_rank_that_was_looked_at_has_not_ended_by_what_its_log_holds() -> None:
    """An exception that was caught: its process is there, with a stack of a tool."""
    stack = 'Process 77: python train.py\nThread 77 (idle): "MainThread"\n    main (train.py:9)\n'
    logs = {"train.log": ended_with(PEER_LOSSES[0], 0), "stacks/pyspy_rank1.txt": stack}

    assert diagnosed_files(logs).verdict != "failed"


def own_logs(silent: str) -> dict[str, str]:
    """Write logs whose names tell no ranks; all but one end with the words of a watchdog."""
    logs = {
        f"train_b17_{rank}.log": f"INFO [rank{rank}] step 8\nINFO [rank{rank}] step 9\n"
        f"[rank{rank}]:{LATE.format(rank)}"
        for rank in (0, 1, 3)
    }
    return {**logs, "train_b17_2.log": silent}


def test_a_log_of_one_rank_tells_by_its_lines_whose_silence_it_is() -> None:
    """No name tells the rank; its own lines do, and the last of them is where it was."""
    report = diagnosed_files(own_logs("INFO [rank2] step 8\nINFO [rank2] step 9\n"))

    first = report.findings[0]
    assert first.signature == "rank-log-without-timeout"
    assert first.culprit_ranks == (2,)
    assert "did not come to all_reduce #" in first.title
    assert "its last line is 'step 9' (train_b17_2.log:2)" in first.title
    (row,) = (row for row in report.ranks if row.rank == 2)
    assert "step 9" in row.activity


@pytest.mark.parametrize(
    "silent",
    [
        "INFO [rank2] step 8\nINFO [rank2] st",
        "INFO [rank2] step 8\nINFO [rank0] step 9\n",
        "INFO [rank2] step 8\nINFO starting the evaluation\n",
    ],
    ids=("cut within a line", "of two ranks", "of a rank and somebody else"),
)
def test_a_log_that_may_not_be_all_of_a_rank_blames_nobody(silent: str) -> None:
    """Where it breaks off in a line, or others write to it, silence in it is no evidence."""
    report = diagnosed_files(own_logs(silent))

    assert not any(
        finding.signature == "rank-log-without-timeout" and finding.culprit_ranks
        for finding in report.findings
    )

"""What is said of ranks that are silent agrees with who speaks in the logs."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

GAVE_UP = (
    "[rank{0}]:[E312 09:25:00.36422586{0} ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0"
    "(default_pg) Rank {0}] failure detected by watchdog at work sequence id: 41 PG status: last "
    "enqueued work: 43, last completed work: 40\n"
)
TIMED_OUT = (
    "[rank{0}]:[E312 09:25:00.36422586{0} ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, "
    "Timeout(ms)=600000) ran for 600033 milliseconds before timing out.\n"
)


def steps(*ranks: int) -> str:
    return "".join(f"[rank{n}]: 09:1{s}:00 step {s} loss 3.2\n" for s in range(4) for n in ranks)


def gave_up(*ranks: int) -> str:
    return "".join(form.format(rank) for rank in ranks for form in (TIMED_OUT, GAVE_UP))


def test_who_speaks_of_something_else_is_not_silent() -> None:
    """A rank that prints is not said to have said nothing; of its call there is no word."""
    log = steps(0, 1, 2, 3) + "[rank3]: shuffling shards\n" + gave_up(0, 1, 2)
    finding = diagnosed_files({"pod-0.log": log}).findings[0]
    assert finding.signature == "waits-for-silent-rank"
    assert "What rank 3 printed has no word of it: not there yet, or gone" in finding.explanation
    assert "did not say anything" not in finding.explanation


def test_who_is_not_in_the_log_is_silent() -> None:
    """Of a rank without any line it is left open whether its output was collected."""
    log = "world_size=4\n" + steps(0, 1, 2) + gave_up(0, 1, 2)
    finding = diagnosed_files({"pod-0.log": log}).findings[0]
    assert finding.signature == "waits-for-silent-rank"
    assert "Rank 3 did not say anything: not there yet, dead, or not coll" in finding.explanation


@pytest.mark.parametrize("label", ["[n{node}] rank {rank}/8", "rank {rank}/8"])
def test_the_hosts_in_front_of_ranks(label: str) -> None:
    """A host in brackets in front of a rank: only ranks without such a line are missing."""
    logs = {
        f"n{node}.log": "".join(
            f"{label.format(node=node, rank=rank)} calling init_process_group\n"
            for rank in range(2 * node, 2 * node + 2)
        )
        for node in range(3)
    }
    report = diagnosed_files(logs)
    assert [row.rank for row in report.ranks if "init_process_group" in row.activity] == [*range(6)]
    assert any("Nothing was collected of ranks 6-7" in gap for gap in report.gaps)


def test_lightning_s_ranks_come_to_the_start() -> None:
    """What each rank prints of its number when it starts is its line."""
    log = "".join(
        f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/4\n"
        for rank in range(4)
    )
    report = diagnosed_files({"fit.log": log + "[rank3]: KeyError: 1007\n"})
    assert {row.rank for row in report.ranks} == {0, 1, 2, 3}
    assert not any("collected of" in gap for gap in report.gaps)


@pytest.mark.parametrize(
    "command", ["accelerate launch --num_processes 16 --machine_rank 1 train.py", "bash run.sh"]
)
def test_the_variable_of_a_pod_is_no_rank_of_the_job(command: str) -> None:
    """An operator counts pods by RANK; how many processes each starts, the line does not say."""
    log = f"RANK=1 WORLD_SIZE=2 {command}\nstep 10 loss 2.1\nstep 20 loss 2.0\n"
    log += "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"

    assert not any(finding.culprit_ranks for finding in diagnosed_files({"p.log": log}).findings)


def test_a_monitor_that_complains_of_ranks_is_none_of_them() -> None:
    """Its name stands in brackets as a host's does; it does not count the ranks each time."""
    said = "[monitor] rank {} has not answered for {} s\n"
    log = "[monitor] world size 8\n" + "".join(said.format(n, s) for s in (60, 120) for n in (3, 5))

    report = diagnosed_files({"job.log": log})

    assert report.findings[0].signature == "log-without-step"
    assert not any("last line" in row.activity for row in report.ranks)


def test_lines_of_nobody_may_be_of_any_rank() -> None:
    """Where processes print whose rank is not known, it is not said that nothing was collected."""
    log = (
        "world_size=4\n[rank0]: step 1 loss 0.2\n"
        "hostB: Traceback (most recent call last):\n"
        'hostB:   File "/w/train.py", line 61, in main\n'
        "hostB: RuntimeError: stack expects each tensor to be equal size\n"
    )
    gaps = diagnosed_files({"ds.log": log}).gaps
    assert any("No line is known to be of ranks 1-3 (world size 4" in gap for gap in gaps)


INIT = (
    "gpu07:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRankConfig comm 0x55 rank {rank} nranks 4 "
    "cudaDev {rank} nvmlDev {rank} busId 1b000 commId 0x8c11 - Init COMPLETE\n"
)
CLOSED = (
    "W0618 02:15:09.781000 8990 torch/distributed/elastic/multiprocessing/api.py:897] Sending "
    "process {pid} closing signal SIGTERM\n"
)


def test_who_was_ended_does_not_run() -> None:
    """That a rank has made a communicator tells less than that the launcher ended it."""
    log = "".join(INIT.format(pid=9001 + rank, rank=rank) for rank in range(4))
    log += "".join(CLOSED.format(pid=9001 + rank) for rank in (0, 1, 3))
    rows = {row.rank: row for row in diagnosed_files({"train.log": log}).ranks}
    assert {rank: (rows[rank].state, rows[rank].activity) for rank in (0, 1, 3)} == dict.fromkeys(
        (0, 1, 3), ("exited", "ended: SIGTERM")
    )
    assert rows[2].state == "running"


def test_whose_watchdog_ends_with_an_error_of_the_gpu_does_not_run() -> None:
    """An error that is no time-out ends the process together with its watchdog."""
    log = "".join(INIT.format(pid=9001 + rank, rank=rank) for rank in range(4)) + (
        "[rank2]:[E603 11:00:01.100200300 ProcessGroupNCCL.cpp:1899] [PG ID 0 PG GUID "
        "0(default_pg) Rank 2] Process group watchdog thread terminated with exception: CUDA "
        "error: uncorrectable ECC error encountered\n"
    )
    rows = {row.rank: row for row in diagnosed_files({"train.log": log}).ranks}
    assert rows[2].state == "exited"
    assert rows[2].activity == "ended: CUDA error: uncorrectable ECC error encountered"

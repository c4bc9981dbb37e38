"""What a job went on from is no cause: trouble with steps below it, up to the planned end."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Report

KILLED = "[rank1]: RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.\n"
STUCK = (
    "[rank1]:[W302 09:00:11.000000123 ProcessGroupNCCL.cpp:1500] ProcessGroupNCCL's watchdog got "
    "stuck for 480 seconds without making progress in monitoring enqueued collectives.\n"
)
MEMORY = (
    "[rank1]: WARNING caught torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
    "2.00 GiB. GPU 1 has a total capacity of 79.10 GiB; skipping batch\n"
)
REFUSED = (
    "n2:9:9 [0] misc/socket.cc:484 NCCL WARN socketFinalizeConnect: Connect to 10.0.0.1<41000> "
    "returned Connection refused, exceeded error retry count (34)\n"
)
GAVE_UP = "".join(
    f"[rank{rank}]:[E302 09:10:11.000000123 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=8, "
    "NumelOut=8, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    for rank in (0, 1, 3)
)


def steps(first: int, last: int, *, minute: int | None = None, ranks: int = 2) -> str:
    """Print steps of all ranks; with times, if there is a minute."""
    lines = []
    for step in range(first, last + 1):
        time = "" if minute is None else f"2026-03-02 09:{minute:02d}:{step % 60:02d} "
        lines += [f"[rank{rank}]: {time}step {step}/30 loss 2.5\n" for rank in range(ranks)]
    return "".join(lines)


def cause(text: str) -> str | None:
    """Return the signature of what leads, if it accuses or explains anything."""
    first = next(iter(diagnosed_files({"job.log": text}).findings), None)
    return first.signature if first is not None and first.category != "healthy" else None


@pytest.mark.parametrize(
    "trouble", [KILLED, STUCK, MEMORY, REFUSED], ids=["worker", "watchdog", "memory", "connection"]
)
def test_trouble_on_the_way_to_the_planned_end_is_over(trouble: str) -> None:
    """Whatever it was; without the steps below it counts."""
    assert cause(steps(1, 9) + trouble + steps(10, 30)) is None
    assert cause(steps(1, 9) + trouble) is not None


def test_trouble_behind_the_last_step_counts() -> None:
    """Also where one rank had come to its end."""
    assert cause(steps(1, 30) + KILLED) == "dataloader-worker-killed"


def test_steps_that_may_have_been_buffered_prove_nothing() -> None:
    """A program that ends prints what it had kept; only times say that it happened later."""
    assert cause(KILLED + steps(1, 9)) == "dataloader-worker-killed"
    timed = KILLED.replace("]: ", "]: 2026-03-02 09:05:00 ")
    assert cause(timed + steps(1, 9, minute=6)) is None
    assert cause(timed + steps(1, 9, minute=4)) == "dataloader-worker-killed"


CAPTURED = "[rank1]: RuntimeError: expected failure in a test\n"


def test_who_keeps_all_processes_says_that_all_is_well() -> None:
    """What a test run or a controller has seen pass, or restarted, is over without any steps."""
    assert cause(f"{CAPTURED}=== 11 passed, 1 xfailed in 31.20s ===\n") is None
    assert cause(f"{CAPTURED}=== 1 failed, 11 passed in 31.20s ===\n") == "uncaught-exception"
    controller = "(TrainController pid=39) "
    died = (
        f"{controller}Decision: RESTART, Error source: worker group, Error:\n{controller}[Rank 1]\n"
        f"{controller}ray.exceptions.RayActorError: The actor died unexpectedly.\n"
    )
    assert cause(died) is not None
    assert cause(f"{died}{controller}[State Transition] RUNNING -> FINISHED.\n") is None


CAUGHT = (
    "Traceback (most recent call last):\n"
    '  File "/srv/run.py", line 19, in upload\n'
    "    put(file)\n"
    "ConnectionResetError: [Errno 104] Connection reset by peer\n"
    "upload failed, continuing\n"
)
STORE_GONE = (
    "[rank1]:[W302 09:09:00.100000000 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl("
    "fd=4, addr=[localhost]:40000, remote=[localhost]:29500): failed to recv, got 0 bytes\n"
)
KILLED_OTHER = (
    "[ 1200.500000] Out of memory: Killed process 771 (chrome) total-vm:1kB, anon-rss:2kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:300\n"
)


def test_a_job_that_came_to_its_end_is_healthy_whatever_it_caught() -> None:
    """And who comes to the end leaves the others, and the kernel speaks of other programs."""
    whole = steps(1, 9) + CAUGHT + steps(10, 30)
    assert diagnosed_files({"job.log": whole}).verdict == "healthy"
    assert diagnosed_files({"job.log": steps(1, 9) + CAUGHT}).verdict != "healthy"
    assert cause(steps(1, 30) + STORE_GONE) is None
    assert cause(steps(1, 9) + STORE_GONE) == "store-gone"
    killed = diagnosed_files({"job.log": steps(1, 30), "dmesg.txt": KILLED_OTHER})
    assert killed.verdict == "healthy"
    hung = diagnosed_files({"job.log": steps(1, 9), "dmesg.txt": KILLED_OTHER})
    assert hung.findings[0].category == "rank-oom-killed"


def absent(report: Report) -> set[int]:
    """Return all whom causes name."""
    named = (f.culprit_ranks or () for f in report.findings if f.kind == "cause")
    return {rank for ranks in named for rank in ranks}


def test_who_was_absent_once_is_not_named_in_a_job_that_trains_on() -> None:
    """Whatever started it anew: no launcher says so here."""
    once = steps(1, 9, minute=0, ranks=4) + GAVE_UP

    assert absent(diagnosed_files({"job.log": once})) == {2}
    again = once + steps(10, 20, minute=20, ranks=4)
    assert absent(diagnosed_files({"job.log": again})) == set()
    long_after = once + steps(10, 10, minute=20, ranks=4)
    assert absent(diagnosed_files({"job.log": long_after})) == set()
    later = GAVE_UP.replace("09:10", "09:30").replace("=42", "=50")
    assert absent(diagnosed_files({"job.log": again + later})) == {2}


def test_nor_where_each_rank_has_a_log_of_its_own() -> None:
    """In the log of the rank that was absent nothing says so."""
    logs = {f"rank{rank}.log": f"{own(rank, 0)}{gave_up(rank)}{own(rank, 20)}" for rank in range(4)}
    assert absent(diagnosed_files(logs)) == set()
    hung = {name: text.partition("2026-03-02 09:20")[0] for name, text in logs.items()}
    assert absent(diagnosed_files(hung)) == {2}


def own(rank: int, minute: int) -> str:
    """Print steps of one rank, as a log of its own has them."""
    first = minute + 1
    return "".join(
        f"2026-03-02 09:{minute:02d}:{step % 60:02d} step {step} loss 2.5\n"
        for step in range(first, first + 9)
    )


def gave_up(rank: int) -> str:
    """Print what a watchdog says, unless this rank is the absent one."""
    return next((line for line in GAVE_UP.splitlines(keepends=True) if f"[rank{rank}]" in line), "")

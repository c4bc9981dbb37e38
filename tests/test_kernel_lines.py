"""What a kernel says of another time, job or program than the one that is looked at."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

STEPS = "".join(
    f"[rank{rank}]: 2025-05-30 12:0{minute}:00 step {minute}\n"
    for minute in range(6)
    for rank in range(2)
)
FAILED = (
    STEPS + "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/q/t.py", line 39, in main\n'
    "[rank1]: ValueError: Expected positive integer\n"
    "E0530 12:06:21.796000 3290 torch/distributed/elastic/multiprocessing/api.py:869] failed "
    "(exitcode: 1) local_rank: 1 (pid: 3301) of binary: /usr/bin/python3\n"
)
XID = (
    "[{} 2025] NVRM: Xid (PCI:0000:86:00): 79, pid=771201, name=python3, "
    "GPU has fallen off the bus.\n"
)


@pytest.mark.parametrize(
    ("when", "blamed"),
    [
        ("Mon May 26 04:11:09", False),
        ("Thu May 29 12:00:00", False),
        ("Fri May 30 08:06:00", True),  # it may be told in another zone
        ("Fri May 30 12:05:30", True),
        ("Sat May 31 04:11:09", False),
    ],
)
def test_what_a_kernel_said_long_before_or_after_a_job(when: str, *, blamed: bool) -> None:
    """Another day's fault of a GPU ended no job of this one; that it was read is said."""
    report = diagnosed_files({"job.log": FAILED, "dmesg.txt": XID.format(when)})

    assert (report.findings[0].category == "gpu-fell-off-bus") is blamed
    assert any("dmesg.txt" in str(gap) for gap in report.gaps) is not blamed
    assert any("fallen off" in event.says for event in report.story) is blamed


def test_a_job_without_an_end_may_be_ended_by_what_comes_later() -> None:
    """Where the log just stops, who knows how long the job was silent."""
    later = XID.format("Sat May 31 04:11:09")
    report = diagnosed_files({"job.log": STEPS, "dmesg.txt": later})

    assert report.findings[0].category == "gpu-fell-off-bus"


def test_times_without_a_day_or_a_year_are_not_compared() -> None:
    """Seconds since the host started say nothing of when that was."""
    undated = "[12345.678901] " + XID.format("x").partition("] ")[2]
    report = diagnosed_files({"job.log": FAILED, "dmesg.txt": undated})

    assert report.findings[0].category == "gpu-fell-off-bus"


OOM = (
    "[Fri May 30 12:03:07 2025] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, "
    "oom_score_adj=0\n"
    "[Fri May 30 12:03:07 2025] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),"
    "cpuset=step_0,mems_allowed=0-1,oom_memcg=/slurm/uid_2001/job_{0},"
    "task_memcg=/slurm/uid_2001/job_{0}/step_0/task_0,task=python,pid=33018,uid=2001\n"
    "[Fri May 30 12:03:07 2025] Memory cgroup out of memory: Killed process 33018 (python) "
    "total-vm:91002112kB, anon-rss:64002112kB, file-rss:0kB, shmem-rss:0kB, UID:2001\n"
)


@pytest.mark.parametrize(("job", "told"), [(9981, False), (9975, True)])
def test_a_process_killed_in_the_cgroup_of_another_job(job: int, *, told: bool) -> None:
    """Slurm's cgroups have the number of their job: what is killed in another's is not told."""
    report = diagnosed_files({"slurm-9975.out": FAILED, "dmesg.txt": OOM.format(job)})

    events = [event for event in report.story if event.source == "dmesg.txt"]
    assert bool(events) is told
    assert any(f.category == "rank-oom-killed" for f in report.findings) is told


WAITS = (
    "[rank{0}]:[E530 12:14:33.497086957 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=901, OpType=ALLREDUCE, NumelIn=5000, "
    "NumelOut=5000, Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n"
)
PIDS = "worker pids: rank0=6600 rank1=6601 rank2=6602 rank3=6603\n"
CRASHED = (
    "[Fri May 30 12:04:31 2025] NVRM: Xid (PCI:0000:e1:00): 13, pid={}, name={}, "
    "Graphics Exception: ESR 0x50df48=0x20009\n"
)


@pytest.mark.parametrize(
    ("pid", "name", "told"),
    [
        (9911, "jupyter-noteboo", False),
        (9911, "python3", True),  # of a container, say, where it has another number
        (6602, "python3", True),
    ],
)
def test_a_kernel_of_another_program_that_crashed(pid: int, name: str, *, told: bool) -> None:
    """A name and a number that no rank has are of somebody who did nothing to the job."""
    waits = "".join(WAITS.format(rank) for rank in (0, 1, 3))
    logs = {"job.log": PIDS + STEPS + waits, "dmesg.txt": CRASHED.format(pid, name)}
    report = diagnosed_files(logs)

    assert any(finding.category == "rank-died" for finding in report.findings) is told
    assert not any("9911" in event.says for event in report.story if not told)
    assert report.findings[0].culprit_ranks == (2,)

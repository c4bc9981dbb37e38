"""What Slurm says of how a job and its tasks ended."""

from __future__ import annotations

from log_docs import diagnosed, diagnosed_files

REQUEUED = "slurmstepd: error: *** STEP 31.0 ON y1 CANCELLED AT 2025-07-24T10:00:09 DUE TO {} ***\n"
TABLE = """\
1: torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
1: ============================================================
1: pre.py FAILED
1: ------------------------------------------------------------
1: Failures:
1:   <NO_OTHER_FAILURES>
1: ------------------------------------------------------------
1: Root Cause (first observed failure):
1: [0]:
1:   time      : 2025-07-22_10:00:40
1:   host      : s2
1:   rank      : 14 (local_rank: 6)
1:   exitcode  : -9 (pid: 77016)
1:   error_file: <N/A>
1:   traceback : Signal 9 (SIGKILL) received by PID 77016
1: ============================================================
srun: error: {}: task {}: Exited with exit code 1
"""


def test_nobody_is_said_to_have_asked_for_a_requeue() -> None:
    """A job may put itself back into the queue; only preemption is for another job."""
    requeued, preempted = (
        diagnosed({None: REQUEUED.format(why)}).findings[0] for why in ("JOB REQUEUE", "PREEMPTION")
    )

    assert "higher priority" not in requeued.explanation
    assert "higher priority" in preempted.explanation
    assert requeued.category == preempted.category == "rank-died"


def test_a_launcher_on_another_host_is_not_the_rank_that_was_killed() -> None:
    """A task of srun that is a launcher has no rank; where it was, the killed one may not be."""
    elsewhere, there = (
        diagnosed({None: TABLE.format(host, task)}) for host, task in (("s1", 0), ("s2", 1))
    )

    assert [e.ranks for e in elsewhere.story if e.says.startswith("Task 0 on s1")] == [()]
    assert [e.ranks for e in there.story if e.says.startswith("Task 1 on s2")] in ([(14,)], [])


WORK = "".join(f"2025-04-04 10:0{n}:00 epoch {n} iter {n}0 loss 0.{9 - n}00\n" for n in range(8))
DONE = "2025-04-04 10:08:08 All done, bye.\n"
AT_EXIT = (
    "Traceback (most recent call last):\n"
    '  File "/opt/venv/lib/python3.11/site-packages/hub/run.py", line 2412, in _atexit_cleanup\n'
    "    self._on_finish()\n"
    "TimeoutError: timed out waiting for the service to finish\n"
)
SACCT = "JobID|State|ExitCode|Elapsed\n331|{0}|00:08:10\n331.batch|{0}|00:08:10\n"
STEP = "331.0|{0}|00:08:01\n"


def test_a_job_that_slurm_says_is_completed_came_to_its_end() -> None:
    """All tasks left with 0: what was printed behind the work as they ended is no failure."""
    well, badly = "COMPLETED|0:0", "FAILED|1:0"
    with_tasks = SACCT.format(well) + STEP.format(well)
    log, broken = WORK + DONE, WORK + DONE + AT_EXIT

    def verdict(text: str, rows: str) -> str:
        return diagnosed_files({"slurm-331.out": text, "sacct.txt": rows}).verdict

    assert verdict(log, with_tasks) == "healthy"
    assert verdict(log, SACCT.format(well)) == "healthy"
    assert verdict(broken, with_tasks) == "healthy"
    assert verdict(broken, SACCT.format(well)) == "failed"  # a script may end so behind an error
    assert verdict(log, SACCT.format(badly) + STEP.format(badly)) != "healthy"
    assert verdict(broken, SACCT.format(well) + STEP.format(badly)) == "failed"

"""What ended an earlier attempt of a job is history, once the next one has gone on."""

from pathlib import Path

import pytest

from whyhang import diagnose
from whyhang.analyzer.facts import (
    Exit,
    Fact,
    Gap,
    LogLine,
    Process,
    Role,
    Source,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.job.inference.attempts import of_the_last_attempt

FAILED = """\
step 4 loss 2.30
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/train.py", line 31, in <module>
[rank1]:     load(shard)
[rank1]: OSError: [Errno 5] Input/output error: 'shard-7.bin'
W1122 23:19:16.652000 331 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 398 closing signal SIGTERM
E1122 23:19:16.716000 331 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: 399) of binary: /usr/bin/python
"""  # noqa: E501
WENT_ON = "".join(f"step {n} loss 2.{n}\n" for n in range(5, 9))
TABLE = """\
train.py FAILED
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_23:19:16
  host      : n1
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 399)
  error_file: <N/A>
"""


def culprits(folder: Path, text: str) -> set[tuple[int, ...] | None]:
    """Diagnose one log; return whom its causes name."""
    (folder / "job.log").write_text(text)
    report = diagnose(folder)
    return {finding.culprit_ranks for finding in report.findings if finding.kind == "cause"}


def test_a_log_that_goes_on_after_an_end_tells_of_a_later_start(tmp_path: Path) -> None:
    """The rank that failed then is no culprit now, and the report says what it leaves out."""
    assert (1,) not in culprits(tmp_path, FAILED + WENT_ON)
    assert [gap for gap in diagnose(tmp_path).gaps if "earlier attempt" in gap]


def test_what_fails_in_the_later_start_counts(tmp_path: Path) -> None:
    """Each start has processes of its own."""
    again = FAILED.replace("rank1", "rank0").replace(
        "local_rank: 1 (pid: 399)", "local_rank: 0 (pid: 420)"
    )
    assert culprits(tmp_path, FAILED + WENT_ON + again) == {(0,)}


def test_the_last_start_failed_where_nothing_follows(tmp_path: Path) -> None:
    """Nor where only the launcher's table follows, or what a logger sends on its way out."""
    assert culprits(tmp_path, FAILED) == {(1,)}
    assert culprits(tmp_path, FAILED + TABLE) == {(1,)}
    assert culprits(tmp_path, FAILED + "wandb: Run history: loss 2.31 step 100\n" + TABLE) == {(1,)}


def test_a_start_that_came_to_nothing_leaves_the_one_before_to_blame(tmp_path: Path) -> None:
    """It may have failed because of that."""
    text = (
        FAILED
        + "[rank0]: torch.distributed.DistStoreError: Timed out after 61 seconds "
        + "waiting for clients. 1/2 clients joined.\n"
    )
    assert (1,) in culprits(tmp_path, text)


OLD = Exit(
    who=Who(rank=1, trust=Trust.CONTENT, host="n1", pid=399),
    source=Source(file="job.log", line=7),
    quote="failed (exitcode: 1) local_rank: 1 (pid: 399)",
    exitcode=1,
)
BEFORE = LogLine(who=Who(rank=1), source=Source(file="job.log", line=5), text="OSError", matched=())
NOW = Process(
    who=Who(rank=1, trust=Trust.ENVIRONMENT, host="n1", pid=420),
    source=Source(file="processes.json"),
    role=Role.RANK,
    state="S",
)


def kept(*facts: Fact) -> list[Fact]:
    """Return which of these facts are of the last attempt."""
    return [fact for fact in of_the_last_attempt(facts) if not isinstance(fact, Gap)]


def test_a_rank_that_lives_was_started_anew() -> None:
    """Its log need not have gone on: what it tells of another process of that rank is history."""
    assert kept(OLD, BEFORE, NOW) == [NOW]


@pytest.mark.parametrize(
    "process",
    [
        pytest.param(replace(NOW, who=replace(NOW.who, pid=399)), id="the one that ended"),
        pytest.param(replace(NOW, who=replace(NOW.who, rank=0)), id="another rank"),
        pytest.param(replace(NOW, who=replace(NOW.who, host="n2")), id="another host"),
        pytest.param(replace(NOW, state="Z"), id="a zombie"),
        pytest.param(replace(NOW, role=Role.DATALOADER_WORKER), id="a worker"),
    ],
)
def test_a_rank_that_was_not_started_anew_has_ended(process: Process) -> None:
    """Its end counts, and so does what stands before it."""
    assert kept(OLD, BEFORE, process) == [OLD, BEFORE, process]


COMMAND = "me@n1:~/run$ accelerate launch train.py\n"
KILLED = "failed (exitcode: -9) local_rank: {} (pid: {}) of binary: /usr/bin/python\n"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (COMMAND, COMMAND, {(3,)}),
        (COMMAND, COMMAND.replace("accel", "NCCL_DEBUG=INFO accel"), {(3,)}),
        # another node of the same job has a name, or a number, of its own
        (COMMAND, COMMAND.replace("n1", "n2"), {(3, 4)}),
        (COMMAND, COMMAND.replace("launch", "launch --machine_rank 1"), {(3, 4)}),
    ],
)
def test_a_command_given_again_starts_another_run(
    tmp_path: Path, first: str, second: str, expected: set[tuple[int, ...] | None]
) -> None:
    """Of what somebody ran twice in a terminal, the last run is the one that is asked about."""
    text = first + KILLED.format(4, 208585) + second + KILLED.format(3, 209017)
    assert culprits(tmp_path, text) == expected


CRASHED = (
    "E0808 08:08:25.916000 2290 torch/distributed/elastic/multiprocessing/api.py:869] failed "
    "(exitcode: -11) local_rank: 3 (pid: 2303) of binary: /usr/bin/python3\n"
    "I0808 08:08:25.878000 2290 torch/distributed/elastic/agent/server/api.py:869] [default] "
    "Worker group FAILED. 3/3 attempts left; will restart worker group\n"
)
PREEMPTED = (
    "slurmstepd: error: *** JOB 44 ON k01 CANCELLED AT 2025-07-20T00:24:40 DUE TO PREEMPTION ***\n"
    "W0720 00:24:40.200000 40100 torch/distributed/elastic/multiprocessing/api.py:897] Sending "
    "process 40111 closing signal SIGTERM\n"
)
TO_THE_END = "".join(f"step {n}/9 loss 2.{n}\n" for n in range(4, 10)) + "Training complete\n"


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (FAILED, "rank 1 ended: OSError: [Errno 5] Input/output error: 'shard-7.bin' (job.log:5)"),
        ("step 4 loss 2.30\n" + CRASHED, "rank 3 ended: SIGSEGV (job.log:2)"),
        ("step 4/9 loss 2.30\n" + PREEMPTED, "Slurm ended it, due to preemption (job.log:2)"),
    ],
    ids=["exception", "signal", "scheduler"],
)
def test_how_the_earlier_attempt_ended_is_told(tmp_path: Path, end: str, told: str) -> None:
    """The gap on what is left out says of its end what stands there."""
    (tmp_path / "job.log").write_text(end + (TO_THE_END if end.endswith(PREEMPTED) else WENT_ON))
    gaps = [gap for gap in diagnose(tmp_path).gaps if "earlier attempt" in gap]
    assert any(f"of an earlier attempt it is told that {told}" in gap for gap in gaps), gaps

"""What ended an earlier attempt of a job is history, once the next one has gone on."""

from pathlib import Path

from whyhang import diagnose

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

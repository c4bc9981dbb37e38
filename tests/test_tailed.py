"""Several files that ``head`` or ``tail`` printed into one."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

LOG = "==> logs/r{rank}.log <==\n[pid {pid}] step 41 loss 0.5\n{last}\n"


def test_each_part_is_a_file_of_its_own() -> None:
    """The name below the arrow tells whose it is, and where it ends."""
    parts = [LOG.format(rank=rank, pid=900 + rank, last="step 42 loss 0.4") for rank in (0, 1, 3)]
    parts.insert(2, LOG.format(rank=2, pid=902, last="RuntimeError: CUDA error: out of memory"))
    report = diagnosed_files({"all.txt": "\n".join(parts)})

    assert {rank.rank for rank in report.ranks} == {0, 1, 2, 3}
    assert report.findings[0].culprit_ranks == (2,)
    assert report.findings[0].evidence[0].source == "all.txt/logs/r2.log"


@pytest.mark.parametrize("banner", ["=== rank {} ===", "--- rank{}.log", "#### logs/rank_{}.err:"])
def test_files_below_banners(banner: str) -> None:
    """A loop of the shell names each file before it prints it."""
    ends = {0: "step 42 loss 0.4", 1: "step 42 loss 0.4", 2: "KeyError: 'tokens'"}
    raised = 'Traceback (most recent call last):\n  File "train.py", line 3, in main\n'
    parts = [
        f"{banner.format(rank)}\nstep 41 loss 0.5\n{raised if 'Error' in end else ''}{end}\n"
        for rank, end in ends.items()
    ]
    report = diagnosed_files({"all.txt": "".join(parts)})

    assert {rank.rank for rank in report.ranks} == {0, 1, 2}
    assert report.findings[0].culprit_ranks == (2,)


def test_a_banner_of_something_else_parts_nothing() -> None:
    """Nothing in it tells whose the lines below are."""
    text = "=== epoch 1 ===\n[rank0]: KeyError: 'tokens'\n=== epoch 2 ===\nstep 42\n"
    assert diagnosed_files({"all.txt": text}).findings[0].evidence[0].source == "all.txt"


def test_an_arrow_in_a_log_parts_nothing() -> None:
    """One heading alone, one below other lines, and a name that stands twice."""
    oom = "[rank2]: torch.OutOfMemoryError: CUDA out of memory.\n"
    for text in (f"==> a.log <==\n{oom}", f"start\n==> a.log <==\n==> b.log <==\n{oom}",
                 f"==> a.log <==\n{oom}==> a.log <==\nstep 1\n"):  # fmt: skip
        (finding, *_) = diagnosed_files({"all.txt": text}).findings
        assert (finding.evidence[0].source, finding.culprit_ranks) == ("all.txt", (2,))

"""Why a job hangs, as people explain it: read where nothing else tells of a cause."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Finding


def first(text: str, name: str = "issue.md") -> Finding | None:
    """Return what comes first in the diagnosis of one text."""
    return next(iter(diagnosed_files({name: text}).findings), None)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (
            (
                "It hangs at the end of every epoch. `evaluate()` stands under "
                "`if trainer.is_global_zero`, and it gathers.\n"
            ),
            "missing-rank-in-collective",
        ),
        (
            (
                "Workers whose loss is NaN skip the step: some ranks never enter the all-reduce\n"
                "and the rest is stuck in it for good.\n"
            ),
            "missing-rank-in-collective",
        ),
        (
            (
                "The save deadlocks under ZeRO-3. save_checkpoint is called only by the main "
                "process here.\n"
            ),
            "missing-rank-in-collective",
        ),
        (
            "Not all workers call `gather_object`, which blocks everybody else.\n",
            "missing-rank-in-collective",
        ),
        (
            (
                "# Job freezes\n\nThe reward function returns early on an empty batch, before the "
                "`all_gather` of the metrics.\n"
            ),
            "missing-rank-in-collective",
        ),
        (
            (
                "Fix a hang with sharded files\n\nThe shards give each worker a different number "
                "of batches.\n"
            ),
            "uneven-inputs",
        ),
        (
            "Training gets stuck in epoch 2: nodes with fewer samples are through.\n",
            "uneven-inputs",
        ),
        ("多卡训练卡住,各进程的batch数量不一致\n", "uneven-inputs"),
        ("With uneven batches DDP waits forever in the last step.\n", "uneven-inputs"),
        (
            (
                "We iterate over a set of names, so ranks call the broadcasts in a different order "
                "and the job deadlocks.\n"
            ),
            "collective-mismatch",
        ),
        (
            (
                "It stalls at step 12. The desynced collectives come from a dict that each host "
                "fills by itself.\n"
            ),
            "collective-mismatch",
        ),
        (
            "The hang came from mismatched all_gather calls in the logger.\n",
            "collective-mismatch",
        ),
        (
            "A rank that recompiles for its own shape leaves the others blocked in a collective.\n",
            "compile-divergence",
        ),
        (
            (
                "It timed out in the all-reduce: torch.compile traced a different graph on each "
                "rank.\n"
            ),
            "compile-divergence",
        ),
        (
            "The pipeline hangs: both stages call recv before they send.\n",
            "p2p-mismatch",
        ),
        (
            "Stage 1 is stuck, the isend of its neighbour has no matching irecv.\n",
            "p2p-mismatch",
        ),
        (
            (
                "The deadlock appears when two process groups are used in opposite order on half "
                "of the machines.\n"
            ),
            "cross-group-deadlock",
        ),
    ],
)
def test_why_it_hangs(text: str, category: str) -> None:
    """A person's words for the cause are a possibility that names nobody."""
    finding = first(text)

    assert finding is not None
    assert (finding.category, finding.culprit_ranks) == (category, None)
    assert finding.confidence < 0.5


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The loss is wrong: some ranks never see the last shard.\n", "issue.md"),
        ("It may hang if some ranks skip the barrier.\n", "issue.md"),
        ("Make sure that all ranks call it, or the job hangs.\n", "issue.md"),
        ("Only rank 0 prints. The run took two hours.\n", "issue.md"),
        ("The ranks hold a different number of samples, and join() handles that.\n", "issue.md"),
        ("It no longer hangs when ranks have a different number of batches.\n", "issue.md"),
        ("Timed out waiting 60000ms for send operation to complete\n", "job.log"),
        ("[rank1]: waiting for the others\n[rank0]: waiting for the others\n", "job.log"),
        ("2031-01-01 10:00:00 some ranks never joined, stuck\n", "a.log"),
        ("# some ranks never join and it hangs\nx = 1\n", "snippet.py"),
    ],
)
def test_what_explains_no_hang(text: str, name: str) -> None:
    """No hang, a doubt, advice, lines of programs."""
    finding = first(text, name)

    assert finding is None or not finding.signature.startswith("said-to")


def test_what_a_log_shows_comes_first() -> None:
    """An explanation beside a log that tells is not listed."""
    log = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/job/train.py", line 7, in step\n'
        "[rank1]:     y = x[40]\n"
        "[rank1]: IndexError: index 40 is out of bounds\n"
    )
    said = "It hangs, I think because some ranks never call the barrier.\n"

    found = diagnosed_files({"job.log": log, "issue.md": said}).findings

    assert not any(finding.signature == "said-to-skip-a-call" for finding in found)

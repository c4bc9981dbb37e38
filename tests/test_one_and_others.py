"""What people write of one rank beside the others, with and without its number."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files


@pytest.mark.parametrize(
    ("text", "category", "ranks"),
    [
        (
            "On our corpus rank 6 runs out of batches.\nThe other seven hang in the\nall_reduce.\n",
            "uneven-inputs",
            (6,),
        ),
        (
            "One of the workers leaves the loop early, and the remaining workers time out.\n",
            "uneven-inputs",
            None,
        ),
        (
            "Ranks 0-2 are waiting in the loss reduction while rank 3 starts a new epoch.\n",
            "uneven-inputs",
            (3,),
        ),
        (
            "Yesterday one node sat in a read of the files. The other 15 nodes waited for it.\n",
            "storage-io-blocked",
            None,
        ),
        (
            "Rank 2 is stuck in a write to the NFS share; the rest are blocked in barrier.\n",
            "storage-io-blocked",
            (2,),
        ),
        (
            "The slow worker is spinning in find_split, and all others wait for it.\n",
            "rank-spinning",
            None,
        ),
        ("Every GPU OOM'd in the eval gather, then teardown never returned.\n", "gpu-oom", None),
        ("Rank 1 ran out of GPU memory in step 40 and nothing moved.\n", "gpu-oom", (1,)),
    ],
)
def test_what_one_does_while_the_others_wait(
    text: str, category: str, ranks: tuple[int, ...] | None
) -> None:
    """It tells the kind of the hang, and who it is only where its number stands there."""
    first = diagnosed_files({"report.md": text}).findings[0]

    assert (first.category, first.culprit_ranks) == (category, ranks)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("If one rank runs out of data, the others hang in the all_reduce.\n", "README.md"),
        ("join() prevents that one rank leaves the loop and the others wait.\n", "README.md"),
        ("One rank reads the checkpoint and broadcasts it to the others.\n", "report.md"),
        ("One rank stalled in its read of the shards.\n", "report.md"),
        ("2031-01-01 10:00:00 INFO one rank left the loop, the others wait\n", "job.log"),
        ("# one rank leaves the loop, the others wait\n", "train.py"),
        ("Every rank has 80 GB of memory.\n", "report.md"),
        ("In an older version rank 0 ran out of GPU memory while all waited.\n", "report.md"),
    ],
    ids=["if", "prevents", "no wait", "no others", "a program", "code", "memory", "older"],
)
def test_what_is_no_report_of_a_hang(text: str, name: str) -> None:
    """What may happen or is avoided, what a program says, and one rank of which none depends."""
    findings = diagnosed_files({name: text}).findings

    assert not any(finding.signature.startswith("said-to-") for finding in findings)

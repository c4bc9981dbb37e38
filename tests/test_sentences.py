"""What people write down of where ranks stand: sentences, lists, tables."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Report


def report_of_text(text: str, name: str = "notes.txt") -> Report:
    """Diagnose a text that somebody wrote."""
    return diagnosed_files({name: text})


TABLE = """\
| Rank | GPU util | Stack |
|------|----------|-------|
| 0 | 100% | all_gather (comm.py:12) |
| 1 | 0% | load_shard (data.py:30) |
| 2 | 100% | all_gather (comm.py:12) |
"""
COLUMNS = """\
rank  pid    state  where
0     4001   S      all_reduce (train.py:12)
1     4002   D      write_part (ckpt.py:30)
2     4003   S      all_reduce (train.py:12)
"""


@pytest.mark.parametrize(
    ("text", "culprit", "waiting"),
    [
        (
            "Ranks 0-3 and 5 are all in all_reduce (a.py:2).\nRank 4 is in torch.save (b.py:8).\n",
            4,
            (0, 1, 2, 3, 5),
        ),
        ("7 of 8 ranks are waiting in barrier, rank 3 is not.\n", 3, (0, 1, 2, 4, 5, 6, 7)),
        ("All ranks except rank 2 are in `dist.barrier()`; rank 2 is in `Loader.fetch`.\n", 2, ()),
        (
            "- rank0, 1, 3 → `c10d` / `barrier`\n- rank2 (+others) → `torch._inductor`\n",
            2,
            (0, 1, 3),
        ),
        (TABLE, 1, (0, 2)),
        (COLUMNS, 1, (0, 2)),
    ],
    ids=["py-spy", "counted", "all but", "arrows", "table", "columns"],
)
def test_a_rank_that_is_elsewhere(text: str, culprit: int, waiting: tuple[int, ...]) -> None:
    """The others stand in a collective."""
    finding = report_of_text(text).findings[0]

    assert (finding.culprit_ranks, finding.affected_ranks) == ((culprit,), waiting)


def test_a_table_of_operations() -> None:
    """One in another operation than the others is a mismatch."""
    calls = ("all_reduce", "broadcast", "all_reduce", "all_reduce")
    rows = "".join(f"| {rank} | {call} |\n" for rank, call in enumerate(calls))
    finding = report_of_text("| Rank | Operation |\n|---|---|\n" + rows).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", (1,))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Rank 0 writes the checkpoint, ranks 1-7 wait in barrier.\n", "README.md"),
        ("If rank 0 is in barrier while rank 1 is in all_reduce, the job hangs.\n", "README.md"),
        ("rank 0: entering barrier\nrank 1: entering barrier\nrank 0: barrier done\n", "a.log"),
        ("rank 0 is in barrier\nrank 1 is in all_reduce\nrank 0 is in all_reduce\n", "a.log"),
        ("# rank 3 is in all_reduce here\n# rank 1 is in step\n", "train.py"),
        ("rank 3 is in all_reduce\n", "notes.txt"),
        ("ranks 0-3 are in group tp0; ranks 4-7 are in group tp1\n", "notes.txt"),
        ("| rank | loss |\n|---|---|\n| 0 | 0.4 |\n| 1 | 0.5 |\n", "notes.md"),
    ],
    ids=["habit", "condition", "log", "course", "code", "one place", "groups", "other table"],
)
def test_other_words_about_ranks_place_nobody(text: str, name: str) -> None:
    """What programs do as a rule, print as they go, or are made of."""
    assert not report_of_text(text, name).stack_groups

"""How far ranks are, as people compare them in sentences."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files


@pytest.mark.parametrize(
    ("text", "category", "ranks"),
    [
        (
            "It hangs. Rank 2 prints step 91, all the others print step 92.",
            "missing-rank-in-collective",
            [2],
        ),
        (
            "Stuck: the last finished collective is 700 on rank 5 and 701 on everyone else.",
            "missing-rank-in-collective",
            [5],
        ),
        (
            "It froze with rank 1 at iteration 30 while ranks 0, 2 and 3 are at iteration 31.",
            "missing-rank-in-collective",
            [1],
        ),
        (
            "In each hang rank 0 is at sequence 9, the other ranks are at sequence 4.",
            "collective-mismatch",
            [0],
        ),
        ("All but rank 6 are in the barrier for good.", "missing-rank-in-collective", [6]),
        (
            "The job hangs: its tracker causes rank 4 to be unresponsive.",
            "missing-rank-in-collective",
            [4],
        ),
    ],
)
def test_the_odd_one_is_named(text: str, category: str, ranks: list[int]) -> None:
    """Whose number is not that of the others is behind them, or ahead."""
    first = diagnosed_files({"issue.md": text + "\n"}).findings[0]
    assert (first.category, list(first.culprit_ranks or ())) == (category, ranks)


@pytest.mark.parametrize(
    "text",
    [
        "It hangs. Rank 0 is at step 5, rank 1 at step 6.",  # of two none is the odd one
        "It hangs. Rank 0 was at step 5, later rank 0 was at step 9, the others at step 9.",
        "If rank 0 is at step 5 and the others are at step 6, it hangs.",
        "It hangs. Rank 0 is at step 5 and the others are at step 5.",
        "It hangs. Ranks 0 and 1 are at step 5, ranks 2 and 3 at step 6.",
    ],
)
def test_nobody_is_named(text: str) -> None:
    """Two halves, a course of events, a supposition or no difference name nobody."""
    assert all(f.culprit_ranks is None for f in diagnosed_files({"issue.md": text + "\n"}).findings)

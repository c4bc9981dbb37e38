"""Functions that Python calls by itself: handlers of signals, finalizers."""

from __future__ import annotations

import pytest
from small_jobs import ALL_REDUCE, report_of, still

from whyhang.analyzer.facts import Excerpt


@pytest.mark.parametrize(
    ("function", "definition", "says"),
    [
        ("Job.on_usr1", "    def on_usr1(self, signum, frame):", "a signal's handler, Job.on_usr1"),
        ("handler", "def handler(sig, _frame):", "a signal's handler, handler"),
        ("Job.save", "    def save(self, step, folder):", ""),
    ],
)
def test_what_python_calls_by_itself_is_reported(function: str, definition: str, says: str) -> None:
    """Who stands in a collective there has not come to it by the order of the program."""
    inside = f"""
barrier (torch/distributed/distributed_c10d.py:4900)
wrapper (torch/distributed/c10d_logger.py:83)
{function} (train.py:12)
train (train.py:41)
<module> (train.py:60)
"""
    source = (
        Excerpt(file="train.py", first_line=11, lines=(definition, "        dist.barrier()")),
        Excerpt(file="train.py", first_line=41, lines=("        optimizer.step()",)),
    )
    facts = still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: inside})

    finding = report_of([*facts, *source]).findings[0]

    assert finding.culprit_ranks == (2,)
    assert (f"rank 2 is there in {says}" in finding.explanation) is bool(says)
    assert ("which runs at any line" in finding.explanation) is bool(says)


def test_who_is_in_a_finalizer_need_not_be_the_odd_one() -> None:
    """The object of the others went earlier, or goes later, or not at all."""
    inside = """
reduce (torch/distributed/distributed_c10d.py:2900)
wrapper (torch/distributed/c10d_logger.py:83)
Meter.__del__ (train.py:12)
train (train.py:41)
<module> (train.py:60)
"""
    source = Excerpt(file="train.py", first_line=41, lines=("        meter = Meter()",))

    finding = report_of([*still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: inside}), source]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", None)
    assert "rank 2 in Meter.__del__ (train.py:12): a finalizer" in finding.title


def test_a_handler_that_the_program_calls_itself_is_a_call() -> None:
    """The line of the caller names it."""
    inside = """
barrier (torch/distributed/distributed_c10d.py:4900)
wrapper (torch/distributed/c10d_logger.py:83)
on_usr1 (train.py:12)
train (train.py:41)
<module> (train.py:60)
"""
    source = (
        Excerpt(file="train.py", first_line=11, lines=("def on_usr1(signum, frame):", "  b()")),
        Excerpt(file="train.py", first_line=41, lines=("        on_usr1(10, None)",)),
    )
    facts = still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: inside})

    assert "signal" not in report_of([*facts, *source]).findings[0].explanation

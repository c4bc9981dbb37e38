"""Ranks whose main thread and another one are in collectives at once."""

from __future__ import annotations

import pytest
from small_jobs import ALL_REDUCE, ELSEWHERE, frames, report_of, still

from whyhang.analyzer.facts import Fact, StackDump, Thread, replace

GATHER = """
all_gather (torch/distributed/distributed_c10d.py:4287)
reduce_metrics (train.py:13)
run (concurrent/futures/thread.py:58)
_worker (concurrent/futures/thread.py:83)
run (threading.py:982)
_bootstrap_inner (threading.py:1045)
_bootstrap (threading.py:1002)
"""
IDLE = """
_worker (concurrent/futures/thread.py:81)
run (threading.py:982)
_bootstrap_inner (threading.py:1045)
_bootstrap (threading.py:1002)
"""


def beside(facts: list[Fact], *ranks: int, stack: str = GATHER) -> list[Fact]:
    """Give these ranks a second thread."""
    return [
        replace(
            fact, threads=(*fact.threads, Thread(name="metrics_0", tid=9, frames=frames(stack)))
        )
        if isinstance(fact, StackDump) and fact.who.rank in ranks
        else fact
        for fact in facts
    ]


@pytest.mark.parametrize("ranks", [(0, 1, 2), (1,)])
def test_two_threads_in_collectives_make_no_agreed_order(ranks: tuple[int, ...]) -> None:
    """All main threads are in one call; a thread beside them says why none comes back."""
    finding = report_of(beside(still(dict.fromkeys(range(3), ALL_REDUCE)), *ranks)).findings[0]

    assert (finding.signature, finding.category) == (
        "collectives-on-two-threads",
        "collective-mismatch",
    )
    assert finding.culprit_ranks is None
    assert "all_reduce at train (train.py:40)" in finding.title
    assert 'thread "metrics_0" in all_gather at reduce_metrics (train.py:13)' in finding.title


def test_a_thread_that_waits_for_work_mixes_nothing_up() -> None:
    """A pool's idle thread is in no collective."""
    facts = beside(still(dict.fromkeys(range(3), ALL_REDUCE)), 0, 1, 2, stack=IDLE)

    assert report_of(facts).findings[0].signature == "stuck-together"


RESULT = """
wait (threading.py:327)
result (concurrent/futures/_base.py:451)
save (train.py:12)
<module> (train.py:60)
"""


def test_a_thread_that_the_main_thread_waits_for_is_no_second_one() -> None:
    """The main thread has handed its call to the thread: there is one call at a time."""
    findings = report_of(beside(still({0: RESULT, 1: RESULT, 2: ALL_REDUCE}), 0, 1)).findings

    assert (findings[0].category, findings[0].culprit_ranks) == ("collective-mismatch", (2,))
    assert all(finding.signature != "collectives-on-two-threads" for finding in findings)


def test_a_late_rank_is_the_cause_of_both_waits() -> None:
    """Where one rank has not come, both threads of the others wait for it."""
    facts = beside(still({0: ALL_REDUCE, 1: ELSEWHERE, 2: ALL_REDUCE}), 0, 2)

    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks == (1,)
    assert finding.category == "missing-rank-in-collective"


def test_the_helper_thread_that_is_not_in_the_collective_of_its_like() -> None:
    """On rank 2 it is there and idle: its part is not done, or was dropped there."""
    facts = beside(beside(still(dict.fromkeys(range(3), ALL_REDUCE)), 0, 1), 2, stack=IDLE)
    finding = report_of(facts).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("helper-thread-elsewhere", (2,))
    assert 'On ranks 0-1 thread "metrics_0" waits in all_gather' in finding.title


def test_of_helper_threads_most_of_which_are_idle_none_is_late() -> None:
    """The one that is in a collective may have been given work alone."""
    facts = beside(beside(still(dict.fromkeys(range(3), ALL_REDUCE)), 0), 1, 2, stack=IDLE)

    signatures = [finding.signature for finding in report_of(facts).findings]
    assert "helper-thread-elsewhere" not in signatures

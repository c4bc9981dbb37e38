"""A rank at the same place at every look goes on if it wakes up for what others do for it."""

from __future__ import annotations

import pytest
from small_jobs import BARRIER, dump, process, report_of, still

from whyhang.analyzer.facts import Fact

CALLER = "\nfetch (train.py:12)\ntrain (train.py:38)\n<module> (train.py:60)\n"
DOWNLOAD = "readinto (socket.py:706)\nread (http/client.py:474)" + CALLER
RESULT = (
    "wait (threading.py:327)\nresult (concurrent/futures/_base.py:451)\n"
    "result_iterator (concurrent/futures/_base.py:619)" + CALLER
)
POLL = "get (queue.py:180)" + CALLER


def _job(stack: str, woke: int) -> list[Fact]:
    """Make three ranks, of which two are in barrier and the third wakes up so often."""
    facts = still({0: BARRIER, 1: BARRIER})
    for look in (0, 1):
        facts += [process(2, look=look, woke=woke * look), dump(2, stack, look=look)]
    return facts


@pytest.mark.parametrize(
    ("stack", "woke", "verdict"),
    [
        (DOWNLOAD, 3, "slow"),
        (DOWNLOAD, 1, "hung"),
        (DOWNLOAD, 0, "hung"),
        (RESULT, 3, "slow"),
        (RESULT, 0, "hung"),
        (POLL, 3, "hung"),
    ],
)
def test_who_wakes_up_from_a_wait_without_limit_was_given_something(
    stack: str, woke: int, verdict: str
) -> None:
    """A slow download, results of threads; a queue that is polled wakes up by itself."""
    report = report_of(_job(stack, woke))

    assert report.verdict == verdict
    assert report.findings[0].culprit_ranks == (2,)

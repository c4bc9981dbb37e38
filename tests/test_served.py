"""A rank at the same place at every look goes on if it wakes up for what others do for it."""

from __future__ import annotations

import pytest
from small_jobs import BARRIER, dump, process, report_of, still

from whyhang.analyzer.facts import NO_LIMIT, Fact, ThreadState, replace

CALLER = "\nfetch (train.py:12)\ntrain (train.py:38)\n<module> (train.py:60)\n"
DOWNLOAD = "readinto (socket.py:706)\nread (http/client.py:474)" + CALLER
RESULT = (
    "wait (threading.py:327)\nresult (concurrent/futures/_base.py:451)\n"
    "result_iterator (concurrent/futures/_base.py:619)" + CALLER
)
POLL = "get (queue.py:180)" + CALLER
LOOP = (
    "select (selectors.py:468)\n_run_once (asyncio/base_events.py:1898)\n"
    "run_forever (asyncio/base_events.py:608)\nrun (asyncio/runners.py:118)" + CALLER
)


def _job(stack: str, woke: int, limit: float | None = None) -> list[Fact]:
    """Make three ranks, of which two are in barrier and the third wakes up so often."""
    facts = still({0: BARRIER, 1: BARRIER})
    for look in (0, 1):
        waits = ThreadState(tid=1002, name="python", state="S", wchan="ep_poll", limit=limit)
        rank = replace(process(2, look=look, woke=woke * look), threads=(waits,))
        facts += [rank, dump(2, stack, look=look)]
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


@pytest.mark.parametrize(
    ("woke", "limit", "verdict"),
    [(3, NO_LIMIT, "slow"), (0, NO_LIMIT, "hung"), (3, 60.0, "slow"), (3, 0.3, "hung")],
)
def test_who_wakes_up_before_the_limit_of_its_wait_had_an_answer(
    woke: int, limit: float, verdict: str
) -> None:
    """An event loop whose timer ends its waits may get nowhere; one without a timer gets data."""
    report = report_of(_job(LOOP, woke, limit))

    assert report.verdict == verdict
    assert report.findings[0].culprit_ranks == (2,)

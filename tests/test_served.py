"""A rank at the same place at every look goes on if it wakes up for what others do for it."""

from __future__ import annotations

import pytest
from small_jobs import BARRIER, ELSEWHERE, case_of, dump, frames, process, report_of, still

from whyhang.analyzer.commands.left_open import (
    at_work_or_asleep,
    until_a_sleep_ends,
    with_open_stacks,
)
from whyhang.analyzer.facts import NO_LIMIT, Fact, StackDump, Thread, ThreadState, replace

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


@pytest.mark.parametrize(("sums", "goes_on"), [((1, 2), True), ((1, 1), False), ((1, 2, 2), False)])
def test_messages_of_mpi_show_that_a_job_goes_on(sums: tuple[int, ...], *, goes_on: bool) -> None:
    """The master of a task farm spins in its wait at every look, and its workers compute."""
    facts: list[Fact] = []
    for look, held in enumerate(sums):
        for rank, stack in enumerate((BARRIER, "work (farm.py:29)\n", "work (farm.py:29)\n")):
            spins = process(rank, look=look, state="R", ticks=100 * look)
            facts += [replace(spins, messages=held), dump(rank, stack, look=look)]

    assert case_of(facts).graph.progress is goes_on


@pytest.mark.parametrize(("seconds", "asked"), [(12.0, True), (3600.0, False), (None, False)])
def test_a_sleep_that_ends_soon_is_waited_for(seconds: float | None, *, asked: bool) -> None:
    """What a rank does when it wakes up tells a pace from a hang; an hour is not waited for."""
    facts = still({0: BARRIER, 1: BARRIER})
    for look in (0, 1):
        naps = ThreadState(
            tid=1002, name="python", state="S", wchan="hrtimer_nanosleep", sleeps_for=seconds
        )
        rank = replace(process(2, look=look), threads=(naps,))
        facts += [rank, dump(2, "fetch (train.py:12)" + CALLER, look=look)]

    assert until_a_sleep_ends(case_of(facts)) == ([2] if asked else [])


def test_a_sleep_of_a_stopped_rank_does_not_end() -> None:
    """What is left of its sleep is no time after which it goes on: that it is stopped is known."""
    facts = still({0: BARRIER, 1: BARRIER})
    for look in (0, 1):
        naps = ThreadState(tid=1002, name="python", state="T", sleeps_for=12.0)
        rank = replace(process(2, look=look, state="T"), threads=(naps,))
        facts += [rank, dump(2, "fetch (train.py:12)" + CALLER, look=look)]

    assert until_a_sleep_ends(case_of(facts)) == []
    assert with_open_stacks(case_of(facts)) == []
    (found,) = [f for f in report_of(facts).findings if f.signature == "rank-stopped"]
    assert found.confidence >= 0.95


MAIN_LOOP = "main_loop (ray/_private/worker.py:1069)\n<module> (ray/default_worker.py:330)\n"


@pytest.mark.parametrize(("alone", "asked"), [(False, []), (True, [0, 1, 2])])
def test_of_ranks_that_all_compute_the_steps_are_counted(*, alone: bool, asked: list[int]) -> None:
    """None is seen to wait for another, whose steps would tell; a wait is settled otherwise."""
    facts: list[Fact] = []
    for look in (0, 1):
        for rank in range(3):
            stack = ELSEWHERE if alone or rank else BARRIER
            state = "S" if stack == BARRIER else "R"
            facts += [process(rank, look=look, state=state, ticks=90 * look)]
            facts += [dump(rank, stack, look=look)]

    assert at_work_or_asleep(case_of(facts)) == asked


TRAINS = "run (threading.py:982)\n_bootstrap (threading.py:1002)\n"


@pytest.mark.parametrize("woke", [0, 3])
def test_a_loop_that_idles_may_wake_while_another_thread_trains(woke: int) -> None:
    """Where the main threads of all serve their framework, the threads that train tell."""
    facts: list[Fact] = []
    for look in (0, 1):
        for rank in range(3):
            outer = BARRIER.strip().splitlines()[-1] + "\n"  # in which each thread began
            own = "read (storage.py:7)\n" + outer if rank == 2 else BARRIER
            thread = Thread(name="TrainThread", tid=7, frames=frames(own + TRAINS))
            waits = ThreadState(
                tid=1000 + rank, name="python", state="S", wchan="ep_poll", limit=NO_LIMIT
            )
            seen = dump(rank, MAIN_LOOP, look=look)
            facts += [
                replace(process(rank, look=look, woke=woke * look), threads=(waits,)),
                replace(seen, threads=(*seen.threads, thread)),
            ]
    report = report_of(facts)

    assert report.verdict == "hung"
    assert report.findings[0].culprit_ranks == (2,)


RPC = "torch/distributed/rpc/"
SERVER = f"""
wait (threading.py:327)
_all_gather ({RPC}api.py:257)
shutdown ({RPC}api.py:382)
main (train.py:62)
"""
SERVED = f"\npull (train.py:24)\n_run_function ({RPC}internal.py:209)\n"
ASKS = f"""
rpc_sync ({RPC}api.py:842)
work (train.py:46)
main (train.py:61)
"""
OPENS = "open_shard (train.py:15)\nwork (train.py:45)\nmain (train.py:61)\n<module> (train.py:70)"


@pytest.mark.parametrize(
    ("waits", "last", "culprit"),
    [
        ("wait (threading.py:327)", OPENS, 3),  # its call would end the wait
        ("wait (threading.py:327)", SERVER, 3),  # it has come to the end, and calls no more
        ("wait (threading.py:327)", ASKS, 0),  # nobody is elsewhere
        ("get (queue.py:180)", ASKS, 0),
    ],
)
def test_a_call_that_is_served_waits_for_the_rank_that_has_not_called(
    waits: str, last: str, culprit: int
) -> None:
    """A server of bounded staleness lets the fast ones wait for the slowest."""
    server = Thread(tid=11, frames=frames(waits + SERVED))
    facts = still({0: SERVER, 1: ASKS, 2: ASKS, 3: last})
    facts = [
        replace(fact, threads=(*fact.threads, server))
        if isinstance(fact, StackDump) and fact.who.rank == 0
        else fact
        for fact in facts
    ]
    if last == OPENS:
        opens = ThreadState(tid=1003, name="python", state="S", wchan="wait_for_partner")
        facts += [replace(process(3, look=look), threads=(opens,)) for look in (0, 1)]

    assert report_of(facts).findings[0].culprit_ranks == (culprit,)

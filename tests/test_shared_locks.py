"""Locks of one host that no table of the kernel shows: shared ones, keys, handlers."""

from __future__ import annotations

import pytest
from small_jobs import (
    ALL_REDUCE,
    BARRIER,
    dump,
    frames,
    process,
    report_of,
    still,
)

from whyhang.analyzer.facts import Excerpt, Fact, StackDump, replace

SHARED = """
__enter__ (multiprocessing/synchronize.py:95)
train (train.py:30)
<module> (train.py:60)
"""


def test_the_one_rank_that_does_not_want_a_shared_lock_has_it() -> None:
    """Nothing tells who holds a lock of multiprocessing, but that all others want it."""
    finding = report_of(still({0: SHARED, 1: BARRIER, 2: SHARED})).findings[0]

    assert finding.category == "gil-or-lock-deadlock"
    assert finding.culprit_ranks == (1,)
    assert finding.affected_ranks == (0, 2)


def test_of_several_that_may_have_a_shared_lock_none_is_blamed() -> None:
    """Two ranks wait elsewhere: either may be the holder."""
    finding = report_of(still({0: SHARED, 1: BARRIER, 2: SHARED, 3: BARRIER})).findings[0]

    assert finding.category == "gil-or-lock-deadlock"
    assert finding.culprit_ranks is None


KEY = """
settings (train.py:30)
<module> (train.py:60)
"""
KEY_LINE = Excerpt(file="train.py", first_line=30, lines=('return store.get("rate")',))


@pytest.mark.parametrize(
    ("ranks", "culprits"), [("KBK", (1,)), ("KBB", (0,)), ("KBKB", None), ("KB", None)]
)
def test_who_has_not_set_a_key_is_the_one_rank_that_does_not_wait_for_it(
    ranks: str, culprits: tuple[int, ...] | None
) -> None:
    """It may set the key behind a barrier. One reader of many has a key of its own."""
    stacks = {rank: KEY if letter == "K" else BARRIER for rank, letter in enumerate(ranks)}
    finding = report_of([*still(stacks), KEY_LINE]).findings[0]

    assert finding.category == "store-key-never-set"
    assert finding.culprit_ranks == culprits


def test_one_rank_that_wants_a_lock_shared_with_its_workers_is_where_to_look() -> None:
    """A single rank may share the lock with children of its own."""
    finding = report_of(still({0: BARRIER, 1: SHARED, 2: BARRIER})).findings[0]

    assert finding.category == "gil-or-lock-deadlock"
    assert finding.culprit_ranks == (1,)


@pytest.mark.parametrize(("woke", "locked"), [(0, True), (2, False)])
def test_who_wakes_up_and_waits_again_is_in_no_deadlock(woke: int, *, locked: bool) -> None:
    """All ranks pace themselves by an event with a limit, and none waits for another."""
    stack = (
        "wait (threading.py:331)\npace (train.py:11)\nmain (train.py:24)\n<module> (train.py:40)"
    )
    facts: list[Fact] = []
    for look in (0, 1):
        for rank in range(3):
            facts += [process(rank, look=look, woke=woke * look), dump(rank, stack, look=look)]

    findings = report_of(facts).findings

    assert ("gil-or-lock-deadlock" in {f.category for f in findings}) is locked
    assert all(finding.culprit_ranks is None for finding in findings)


@pytest.mark.parametrize(
    ("outer", "own"), [("        with self.guard:", True), ("        with self.other:", False)]
)
def test_a_handler_that_wants_what_it_interrupted_holds_itself_up(outer: str, *, own: bool) -> None:
    """Further out on the same stack somebody is in a block of the very same lock."""
    stack = "flush (meter.py:29)\non_tick (meter.py:36)\nadd (meter.py:22)\n<module> (train.py:60)"
    wants = frames("lock_PyThread_acquire_lock (libpython3.so:0)")[0]
    facts: list[Fact] = []
    for fact in still({0: ALL_REDUCE, 1: stack}):
        if isinstance(fact, StackDump) and fact.who.rank == 1:
            main = fact.threads[0]
            inner = (replace(wants, native=True), *main.frames)
            fact = replace(fact, threads=(replace(main, frames=inner),))
        facts.append(fact)
    lines = ("    def add(self):", outer, "            self.n += 1", "", *[""] * 4)
    inner_lines = ("    def flush(self):", "        with self.guard:")
    source = Excerpt(file="meter.py", first_line=20, lines=(*lines, *inner_lines))

    finding = report_of([*facts, source]).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("lock-deadlock", (1,))
    assert ("add (meter.py:22), further out on the same stack" in finding.explanation) is own

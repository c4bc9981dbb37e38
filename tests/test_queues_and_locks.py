"""Queues that no thread is left to fill, and locks that two threads hold crosswise."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files, document, reader
from small_jobs import (
    ALL_REDUCE,
    ELSEWHERE,
    frames,
    native,
    report_of,
    still,
)

from whyhang.analyzer.facts import (
    Excerpt,
    Fact,
    StackDump,
    Thread,
    replace,
)

FED = "wait (threading.py:359)\nget (queue.py:180)\nnext (feed.py:19)\n<module> (feed.py:60)"


@pytest.mark.parametrize("feeds", [False, True])
def test_a_queue_that_nobody_is_left_to_fill(*, feeds: bool) -> None:
    """The thread that fed it has ended; one that is still there may feed it yet."""
    facts: list[Fact] = []
    for fact in still({0: ALL_REDUCE, 1: FED}):
        if feeds and isinstance(fact, StackDump) and fact.who.rank == 1:
            fact = replace(fact, threads=(*fact.threads, Thread(frames=frames(ELSEWHERE), tid=9)))
        facts.append(fact)

    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks == (1,)
    assert ("with no other thread left" in finding.title) is not feeds


@pytest.mark.parametrize(("call", "room"), [("put", True), ("get", False)])
def test_a_queue_whose_reader_waits_for_room_in_another(call: str, *, room: bool) -> None:
    """The thread that should fill it cannot go on before the rank takes from the other one."""
    beside = (
        f"wait (threading.py:359)\n{call} (queue.py:140)\nread (feed.py:9)\nrun (threading.py:7)"
    )
    reader = Thread(name="reader", frames=frames(beside), tid=9)
    facts = [
        replace(fact, threads=(*fact.threads, reader))
        if isinstance(fact, StackDump) and fact.who.rank == 1
        else fact
        for fact in still({0: ALL_REDUCE, 1: FED})
    ]

    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks == (1,)
    said = (
        'a queue, while its thread "reader" at read (feed.py:9) waits for room in another one '
        "that is full, at next (feed.py:19)"
    )
    assert (said in finding.title) is room


def test_what_filled_a_queue_that_nobody_is_left_to_fill_is_named() -> None:
    """A thread of that file has ended: its line tells which."""
    source = Excerpt(file="feed.py", first_line=8, lines=("    out.put(item)",))
    taken = Excerpt(file="feed.py", first_line=19, lines=("    item = q.get()",))

    finding = report_of([*still({0: ALL_REDUCE, 1: FED}), source, taken]).findings[0]

    assert finding.culprit_ranks == (1,)
    said = "No thread is left that could come to `out.put(item)` (feed.py:8)"
    assert said in finding.explanation


def test_what_marks_the_items_of_a_queue_that_is_waited_for_is_named() -> None:
    """Where a turn of the thread ends before that line, an item stays open."""
    joined = (
        "wait (threading.py:359)\njoin (queue.py:90)\nflush (feed.py:19)\n<module> (feed.py:60)"
    )
    lines = (
        Excerpt(file="feed.py", first_line=12, lines=("        q.task_done()",)),
        Excerpt(file="feed.py", first_line=19, lines=("    q.join()",)),
    )

    finding = report_of([*still({0: ALL_REDUCE, 1: joined}), *lines]).findings[0]

    assert finding.culprit_ranks == (1,)
    assert "Items are marked as done by `q.task_done()` (feed.py:12)" in finding.explanation


@pytest.mark.parametrize(
    ("stack", "waits", "ends", "said"),
    [
        (
            "acquire (threading.py:486)\nsubmit (feed.py:19)\n<module> (feed.py:60)",
            "    self.slots.acquire()",
            "        self.slots.release()",
            "It is given back by `self.slots.release()` (feed.py:8): whoever takes it must come",
        ),
        (
            (
                "select (selectors.py:468)\n_run_once (asyncio/base_events.py:1900)\n"
                "run_until_complete (asyncio/base_events.py:640)\n"
                "next_batch (feed.py:19)\n<module> (feed.py:60)"
            ),
            "    item = loop.run_until_complete(self.rows.get())",
            "        await self.rows.put(row)",
            "The queue is filled by `await self.rows.put(row)` (feed.py:8): a task that has ended",
        ),
    ],
    ids=["semaphore", "task"],
)
def test_what_would_end_the_wait_is_named(stack: str, waits: str, ends: str, said: str) -> None:
    """An error may have led past it, in a thread or a task of which nothing is left."""
    source = Excerpt(file="feed.py", first_line=8, lines=(ends,))
    waiting = Excerpt(file="feed.py", first_line=19, lines=(waits,))

    finding = report_of([*still({0: ALL_REDUCE, 1: stack}), source, waiting]).findings[0]

    assert finding.culprit_ranks == (1,)
    assert said in finding.explanation


CROSSED = """
class EMA:
    def update(self, checkpoint):
        with self.lock:
            average()
            checkpoint.note()
    def state(self):
        with self.lock:
            return copy(self.shadow)
class Checkpoint:
    def note(self):
        with self.lock:
            self.version += 1
    def run(self):
        with self.lock:
            save(ema.state())
"""


@pytest.mark.parametrize("same", [True, False])
def test_two_threads_that_each_hold_the_lock_of_the_other(*, same: bool) -> None:
    """By blocks of frames further out; a lock of another object's is another lock."""
    lines = CROSSED.strip("\n").split("\n")
    source = Excerpt(file="job.py", first_line=1, lines=tuple(lines))
    main = "Checkpoint.note (job.py:11)\nEMA.update (job.py:5)\n<module> (train.py:60)"
    holder = "Checkpoint.run" if same else "Other.run"
    beside = f"EMA.state (job.py:7)\n{holder} (job.py:15)\nrun (threading.py:7)"
    writer = Thread(name="writer", frames=frames(beside), tid=9)
    acquires = "lock_PyThread_acquire_lock (libpython3.11.so:1)"
    facts = [
        replace(fact, threads=(*fact.threads, writer))
        if isinstance(fact, StackDump) and fact.who.rank == 1
        else fact
        for fact in native(still({0: ALL_REDUCE, 1: f"{acquires}\n{main}"}))
    ]

    finding = report_of([*facts, source]).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("lock-deadlock", (1,))
    said = (
        "thread writer has taken that lock by `with self.lock` (job.py:14), and waits at "
        "EMA.state (job.py:7) for the lock that this one has taken by `with self.lock` "
        "(job.py:3): each waits for the other"
    )
    assert (said in finding.explanation) is same


@pytest.mark.parametrize("alone", [True, False])
def test_a_line_of_a_thread_that_an_error_ended_tells_why_nobody_fills_the_queue(
    *, alone: bool
) -> None:
    """Not where a thread is left, which may fill it yet."""
    log = "INFO:main:iter 4 loss 0.0\nWARNING:rollout:env-2 ends: KeyError('timeout')\n"
    facts: list[Fact] = []
    for fact in still({0: ALL_REDUCE, 1: FED}):
        if not alone and isinstance(fact, StackDump) and fact.who.rank == 1:
            fact = replace(fact, threads=(*fact.threads, Thread(frames=frames(ELSEWHERE), tid=9)))
        facts.append(fact)

    finding = report_of([*facts, *reader().read(document(log, "job.log"))]).findings[0]

    assert finding.culprit_ranks == (1,)
    assert (finding.signature == "awaited-thread-ended") is alone
    assert ("a thread ended by KeyError" in finding.title) is alone


@pytest.mark.parametrize("file", ["feed.py", "other.py"])
def test_a_thread_of_that_file_that_raised_is_what_an_event_waits_for(file: str) -> None:
    """Its traceback names the file in which the rank waits, where no label tells the rank."""
    awaited = (
        "wait (threading.py:359)\nwait (threading.py:655)\nload (feed.py:19)\n<module> (a.py:6)"
    )
    log = (
        "Exception in thread Thread-2 (read):\nTraceback (most recent call last):\n"
        f'  File "/srv/{file}", line 9, in read\n    rows = open(path)\n'
        "FileNotFoundError: no part 7\n"
    )

    facts = [*still({0: ALL_REDUCE, 1: awaited}), *reader().read(document(log, "job.log"))]
    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks == (1,)
    assert (finding.signature == "awaited-thread-ended") is (file == "feed.py")


def test_a_child_process_that_raised_is_what_a_pipe_waits_for() -> None:
    """The log names it as multiprocessing does; all ranks live, so it is none of them."""
    awaited = "_recv (multiprocessing/connection.py:395)\nstep (env.py:19)\n<module> (a.py:6)"
    log = (
        "Process ForkProcess-2:\nTraceback (most recent call last):\n"
        '  File "/srv/game.py", line 9, in play\n    return lengths[level]\nKeyError: 3\n'
    )

    facts = [*still({0: ALL_REDUCE, 1: awaited}), *reader().read(document(log, "job.log"))]
    finding = report_of(facts).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("awaited-thread-ended", (1,))
    assert "a child process ended by KeyError: 3" in finding.title


def test_a_child_that_raised_ends_no_job_whose_ranks_all_live() -> None:
    """Whoever started it may have taken its loss; nobody waits for it here."""
    log = (
        "[rank1]: Process ForkProcess-2:\n[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/srv/game.py", line 9, in play\n[rank1]:     return lengths[level]\n'
        "[rank1]: KeyError: 3\n"
    )

    facts = [*still({0: ALL_REDUCE, 1: ALL_REDUCE}), *reader().read(document(log, "job.log"))]
    report = report_of(facts)

    assert report.verdict != "failed"
    assert not any(finding.culprit_ranks for finding in report.findings)


def test_the_traceback_that_is_cited_is_the_waiting_rank_s_own() -> None:
    """A thread of another rank may have ended later."""
    awaited = "wait (threading.py:359)\nwait (threading.py:655)\nload (feed.py:19)\nrun (a.py:6)"
    log = "".join(
        f"[rank{rank}]: Exception in thread Thread-2 (read):\n"
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/srv/feed.py", line 9, in read\n[rank{rank}]:     rows = open(x)\n'
        f"[rank{rank}]: ValueError: of rank {rank}\n"
        for rank in (1, 0)
    )

    facts = [*still({0: ALL_REDUCE, 1: awaited}), *reader().read(document(log, "job.log"))]
    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks == (1,)
    assert "a thread ended by ValueError: of rank 1" in finding.title


@pytest.mark.parametrize("label", ["[rank{}] ", ""])
def test_a_process_without_a_label_may_be_a_child_where_ranks_have_one(label: str) -> None:
    """A log alone does not tell: it is a possibility then."""
    steps = "".join(f"{label.format(n)}iteration {i}\n" for i in (1, 2) for n in (1, 0, 2))
    raised = (
        "Process ForkProcess-2:\nTraceback (most recent call last):\n"
        '  File "/srv/game.py", line 9, in play\n    return lengths[level]\nKeyError: 3\n'
    )
    finding = diagnosed_files({"job.log": steps + raised}).findings[0]

    assert finding.category in {"rank-died", "not-distributed"}
    assert (finding.confidence < 0.5) is bool(label)

"""Python stack traces that say where a process stands, and those that say what went wrong."""

from __future__ import annotations

import pytest
from stack_docs import dumps, functions

from whyhang.analyzer.facts import Trust
from whyhang.collectors.stacks import traceback

READER = traceback.READER

STACK = """\
  File "/job/train.py", line 10, in <module>
    main()
  File "/job/train.py", line 5, in main
    dist.all_reduce(x)
    ^^^^^^^^^^^^^^^^^^
  File "/lib/torch/distributed/distributed_c10d.py", line 2806, in all_reduce
    work.wait()
"""

THREADS = """\
*** STACKTRACE - START ***

# Thread: MainThread(140111)
File: "/job/train.py", line 10, in <module>
  main()
File: "/job/train.py", line 5, in main
  x.wait()

# Thread: Thread-3 (worker)(140222)
File: "/lib/threading.py", line 1002, in _bootstrap
  self._bootstrap_inner()
File: "/job/train.py", line 55, in worker
  q.get()
*** STACKTRACE - END ***
"""


CHAINED = "During handling of the above exception, another exception occurred:\n\n"


def _prefixed(text: str, prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def test_print_stack_on_a_signal() -> None:
    """A stack printed by a signal handler in a log is the main thread of its rank."""
    log = "step 1 loss 0.5\n" * 40 + "[rank2]: got SIGUSR1\n" + _prefixed(STACK, "[rank2]: ")

    (dump,) = dumps(READER, log, "job.log")

    assert (dump.who.rank, dump.who.trust, dump.main_only) == (2, Trust.PREFIX, True)
    assert functions(dump.threads[0].frames) == ["all_reduce", "main", "<module>"]
    assert dump.source.line == 42


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "x.api.SignalException: Process 7 got 15"])
def test_interrupted_by_a_person(raised: str) -> None:
    """Ctrl-C on a hanging job tells where each rank stood."""
    text = f"Traceback (most recent call last):\n{STACK}{raised}\n"

    (dump,) = dumps(READER, text, "rank1.log")

    assert (dump.who.rank, functions(dump.threads[0].frames)[0]) == (1, "all_reduce")


@pytest.mark.parametrize(
    "text",
    [
        f"Traceback (most recent call last):\n{STACK}RuntimeError: boom\n",
        f"{STACK}ValueError: the head line was lost\n",
        "step 1\n" * 40 + STACK,
        f"{CHAINED}Traceback (most recent call last):\n{STACK}KeyboardInterrupt\n",
        'Traceback (most recent call first):\n  File "/a.py", line 3, in f\n',
        'Thread 0x7f (most recent call first):\n  File "/a.py", line 3 in f\n',
    ],
    ids=["exception", "headless", "in passing", "chained", "py-bt", "faulthandler"],
)
def test_what_is_left_to_others(text: str) -> None:
    """Exceptions, stacks logged in passing and other tools' stacks are not taken."""
    assert dumps(READER, text) == []


def test_loops_over_current_frames() -> None:
    """Threads that a handler prints one by one make one process, named and numbered."""
    (dump,) = dumps(READER, THREADS)

    main, worker = dump.threads
    assert (main.name, main.tid, worker.name, worker.tid) == (
        "MainThread",
        140111,
        "Thread-3 (worker)",
        140222,
    )
    assert functions(worker.frames) == ["worker", "_bootstrap"]
    assert not dump.main_only


def test_a_number_that_begins_with_zeros() -> None:
    """It is a decimal one all the same."""
    (dump,) = dumps(READER, THREADS.replace("140111", "00140111"))

    assert [thread.tid for thread in dump.threads] == [140111, 140222]


def test_the_same_threads_again() -> None:
    """Threads seen again are another dump."""
    assert len(dumps(READER, THREADS * 2)) == 2

"""Reports of pystack, as its documentation and formatter print them."""

from __future__ import annotations

from stack_docs import dumps, functions

from whyhang.collectors.stacks import pystack

REPORT = """\
Traceback for thread 789 (python3) [Waiting for the GIL] (most recent call last):
    (Python) File "/lib/python3.10/threading.py", line 966, in _bootstrap
        self._bootstrap_inner()
      Arguments:
        self: <Thread at 0x7f0c04b96080>
    (Python) File "/job/deadlock.py", line 10, in background
        with second_lock:
    (C) File "Python/thread_pthread.h", line 486, in take_gil (inlined) (/lib/libpython3.10.so)
    (C) File "???", line 0, in __futex_abstimed_wait (/lib/libc.so.6)

Traceback for thread 123 (python3) [Has the GIL] (most recent call last):
    (C) File "???", line 0, in _start ()
    (Python) File "/job/deadlock.py", line 28, in <module>
        t1.join()
    (Python) File "/lib/python3.10/threading.py", line 1089, in join

"""


def test_threads_of_a_report() -> None:
    """Frames come innermost first; the main thread's id is the pid; the status tells the GIL."""
    (dump,) = dumps(pystack.READER, REPORT, "rank1.txt")

    worker, main = dump.threads
    assert (dump.who.pid, dump.who.rank, dump.tool) == (123, 1, "pystack")
    assert functions(worker.frames) == [
        "__futex_abstimed_wait",
        "take_gil",
        "background",
        "_bootstrap",
    ]
    assert [frame.native for frame in worker.frames] == [True, True, False, False]
    assert str(worker.frames[1]) == "take_gil (Python/thread_pthread.h:486)"
    assert worker.frames[0].file == "/lib/libc.so.6"
    assert (worker.holds_gil, main.holds_gil) == (False, True)
    assert (main.name, functions(main.frames)) == ("MainThread", ["join", "<module>", "_start"])


def test_reports_one_after_the_other() -> None:
    """The main thread ends a process; a thread without a stack does not."""
    text = (
        REPORT
        + "The frame stack for thread 901 is empty\n"
        + REPORT.replace("123", "900").replace("789", "902")
    )

    stacks = dumps(pystack.READER, text)

    assert [(dump.who.pid, len(dump.threads)) for dump in stacks] == [(123, 2), (900, 3)]

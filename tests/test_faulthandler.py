"""faulthandler dumps: alone, in logs, woven together, garbled."""

from __future__ import annotations

from stack_docs import dumps, facts, functions

from whyhang.analyzer.facts import Gap, StackDump, Trust
from whyhang.collectors.stacks import faulthandler

READER = faulthandler.READER

DUMP = """\
Thread 0x00007f38c96fe6c0 (most recent call first):
  File "/opt/python/lib/python3.11/threading.py", line 327 in wait
  File "/opt/python/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f38f1a3bb80 (most recent call first):
  File "/job/torch/distributed/distributed_c10d.py", line 2806 in all_reduce
  File "/job/train.py", line 26 in Trainer.<locals>.step
  File "/job/train.py", line 29 in <module>
"""


def _prefixed(text: str, prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def test_a_dump_and_its_main_thread() -> None:
    """The thread that ends in the module is the main thread, though the text does not say so."""
    (dump,) = dumps(READER, DUMP, "rank5.txt")

    other, main = dump.threads
    assert (main.name, other.name) == ("MainThread", None)
    assert functions(main.frames) == ["all_reduce", "Trainer.<locals>.step", "<module>"]
    assert (dump.who.rank, dump.tool, dump.source.line, main.line) == (5, "faulthandler", 1, 5)


def test_ranks_woven_together_by_torchrun() -> None:
    """Lines of two ranks that alternate are parted by their prefix, a local rank."""
    pairs = zip(DUMP.splitlines(), DUMP.splitlines(), strict=True)
    text = "step 1\n" + "".join(f"[default0]:{a}\n[default1]:{b}\n" for a, b in pairs)

    stacks = dumps(READER, text, "job.log")

    assert [dump.who.local_rank for dump in stacks] == [0, 1]
    assert [dump.source.line for dump in stacks] == [2, 3]
    assert len({dump.who.label for dump in stacks}) == 2


def test_rank_prefix_wins_over_the_file_name() -> None:
    """A log of rank 0's launcher that holds [rank3] lines speaks of rank 3."""
    (dump,) = dumps(READER, _prefixed(DUMP, "[rank3]: "), "rank0.log")

    assert (dump.who.rank, dump.who.trust) == (3, Trust.PREFIX)


def test_pages_of_the_debug_server() -> None:
    """Sections of torch's debug server give rank and host, in text and as a page."""
    text = f"=== Rank 0: http://a:4711 ===\n{DUMP}\n=== Rank 1: http://b:4711 ===\n{DUMP}"
    page = (
        f"<h2>Rank 0: http://a:4711</h2><pre>\n{DUMP}</pre>\n<h2>Rank 1: http://b:4711</h2><pre>\n"
        f"{DUMP}</pre>"
    ).replace("<module>", "&lt;module&gt;").replace("<locals>", "&lt;locals&gt;")  # fmt: skip

    for content in (text, page):
        stacks = dumps(READER, content)
        assert [(d.who.rank, d.who.host) for d in stacks] == [(0, "a"), (1, "b")]
        assert functions(stacks[0].threads[1].frames)[-1] == "<module>"


def test_processes_one_after_the_other() -> None:
    """The main thread comes last, so the next thread is of another process."""
    other = DUMP.replace("0x00007f38", "0x00007fd0")

    stacks = dumps(READER, DUMP + other, "all.log")

    assert [len(dump.threads) for dump in stacks] == [2, 2]
    assert len({dump.who.label for dump in stacks}) == 2


def test_the_same_process_again() -> None:
    """A second dump of one process is under the same name as the first."""
    stacks = dumps(READER, DUMP + "Timeout (0:05:00)!\n" + DUMP, "all.log")

    assert len(stacks) == 2
    assert stacks[0].who == stacks[1].who


def test_names_of_threads_since_3_14() -> None:
    """Python 3.14 prints thread names."""
    (dump,) = dumps(READER, DUMP.replace("bb80 (", "bb80 [MainThread] ("))

    assert dump.threads[1].name == "MainThread"


def test_frames_that_are_missing() -> None:
    """A thread without frames and a stack cut at 100 frames are kept as they are."""
    text = (
        "Thread 0x00007f0000000002 (most recent call first):\n  <no Python frame>\n\n"
        "Thread 0x00007f0000000003 (most recent call first):\n"
        '  File "/job/train.py", line ??? in f\n  ...\n'
    )

    (dump,) = dumps(READER, text)

    assert [len(thread.frames) for thread in dump.threads] == [0, 1]
    assert dump.threads[1].frames[0].line is None


def test_garbled_stacks_are_not_believed() -> None:
    """Where processes wrote over each other, no stack is made up and a gap says so."""
    garbled = (
        "Thread 0x00007f2b0ab266c0 (most recent call first):\n"
        '  File "/lib/threading.py", line 327 in wait\n'
        '  File   File ""/job/train.py/lib/threading.py"", line , line 11231 in  in stepfeed\n'
        'Current thread 0x00007f2b2ba6fb80Thread 0x"  File (most recent call first):\n'
    )

    all_facts = facts(READER, garbled)

    assert [type(fact) for fact in all_facts] == [Gap]
    assert "garbled" in str(all_facts[0])


def test_a_garbled_thread_costs_only_its_process() -> None:
    """A whole dump behind a garbled one is read."""
    garbled = (
        "Thread 0x00007f2b0ab266c0 (most recent call first):\n"
        '  File "/lib/threading.py", line 982 in run"  File /lib/x.py", line 3 in f\n\n'
    )

    all_facts = facts(READER, garbled + DUMP)

    assert [type(fact) for fact in all_facts] == [StackDump, Gap]


def test_a_cpp_stack_is_no_dump() -> None:
    """The C++ stack of a torch exception speaks of recent calls too and is none."""
    text = (
        "Exception raised from check at Work.cpp:12 (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation) + 0x64 (0x7f in libc10.so)\n"
    )

    assert facts(READER, text) == []


def test_where_a_process_broke_is_no_place_where_it_waits() -> None:
    """A process that crashed is dead; one that aborted itself did so where it stood."""
    died = "Fatal Python error: {}\n\n{}"
    broken = died.format("Segmentation fault", DUMP) + died.format("Bus error", DUMP)
    assert dumps(READER, broken, "rank5.txt") == []
    assert len(dumps(READER, died.format("Aborted", DUMP), "rank5.txt")) == 1
    assert len(dumps(READER, broken + "Timeout (0:05:00)!\n" + DUMP, "rank5.txt")) == 1

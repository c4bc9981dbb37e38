"""The text of py-spy in every form, with whose stack each one is."""

from __future__ import annotations

import os

from stack_docs import document, dumps, functions

from whyhang.analyzer.facts import Trust
from whyhang.collectors.stacks import pyspy, pyspy_json, pyspy_text

PLAIN = """\
Process 4711: /opt/venv/bin/python3 -u train.py
Python v3.11.7 (/opt/python/bin/python3.11)

Thread 4711 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    train (train.py:19)
    <module> (train.py:29)
Thread 4720 (active+gil): "monitor"
    Thread.run (threading.py:982)
    Thread._bootstrap (threading.py:1002)
"""

WORKER = """\

--------------------------------------------------------------------------------
Process 4800: /opt/venv/bin/python3 -u train.py
Python v3.11.7 (/opt/python/bin/python3.11)
Parent Process 4711: /opt/venv/bin/python3 -u train.py

Thread 4800 (idle): "MainThread"
    Data.__getitem__ (train.py:11)
    _worker_loop (torch/utils/data/_utils/worker.py:374)
    <module> (train.py:29)
"""

NATIVE = """\
Process 4711: python train.py
Python v3.11.7 (/opt/python/bin/python3.11)

Thread 4711 (idle): "MainThread"
    0x7f38f1ca3f16 (libc.so.6)
    std::condition_variable::wait (libstdc++.so.6.0.30)
    c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >) (libtorch_cpu.so)
    _engine_run_backward (torch/autograd/graph.py:979)
    <module> (train.py:29)
    _start (python3.11)
"""

LOCALS = """\
Process 4711: python train.py
Python v3.11.7 (/opt/python/bin/python3.11)

Thread 4711 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2806)
        Arguments:
            tensor: <Tensor at 0x7f2b034bc0f0>
            rank: 7
    train (train.py:17)
        Arguments:
            rank: 2
            text: "looks like (a.py:3)"
        Locals:
            step: 12
    <module> (train.py:29)
"""

SPAWNED = """\
Process 900: python -c from multiprocessing.spawn import spawn_main; spawn_main()
Python v3.11.7 (/opt/python/bin/python3.11)

Thread 900 (idle): "MainThread"
    worker (job.py:8)
    _wrap (torch/multiprocessing/spawn.py:87)
        Arguments:
            fn: <function at 0x7f2b034bc0f0>
            i: 3
    <module> (<string>:1)
"""

SHARED = """\
Thread 501 (active): "MainThread"
Thread 502 (active): "MainThread"
    broadcast (torch/distributed/distributed_c10d.py:1191)
    <module> (pretrain.py:249)

Thread 503 (idle): "MainThread"
    get (queue.py:179)
    <module> (pretrain.py:249)
"""


def test_threads_of_a_plain_dump() -> None:
    """A plain dump gives its process, its threads with state, and lines to cite."""
    (dump,) = dumps(pyspy_text.READER, PLAIN)

    main, monitor = dump.threads
    assert (dump.who.pid, dump.tool) == (4711, "py-spy")
    assert dump.command == "/opt/venv/bin/python3 -u train.py"
    assert (main.tid, main.name, main.active, main.holds_gil) == (4711, "MainThread", False, False)
    assert (monitor.active, monitor.holds_gil, monitor.line) == (True, True, 8)
    assert functions(main.frames) == ["all_reduce", "train", "<module>"]
    assert (main.frames[0].file, main.frames[0].line) == (
        "torch/distributed/distributed_c10d.py",
        2806,
    )
    assert (dump.source.line, main.line) == (1, 4)


def test_subprocesses_give_the_rank_to_its_workers() -> None:
    """With --subprocesses in rank3.txt, the rank and its DataLoader worker are both of rank 3."""
    rank, worker = dumps(pyspy_text.READER, PLAIN + WORKER, "rank3.txt")

    assert (rank.who.pid, rank.who.rank, rank.who.trust) == (4711, 3, Trust.FILE_NAME)
    assert (worker.who.pid, worker.who.rank) == (4800, 3)
    assert functions(worker.threads[0].frames)[0] == "Data.__getitem__"


def test_a_name_does_not_count_for_two_ranks() -> None:
    """A file called rank0.txt that holds two ranks says of neither that it is rank 0."""
    stacks = dumps(pyspy_text.READER, PLAIN + PLAIN.replace("4711", "4712"), "rank0.txt")

    assert [dump.who.rank for dump in stacks] == [None, None]
    assert [dump.who.pid for dump in stacks] == [4711, 4712]


def test_children_of_torchrun_are_numbered_by_pid() -> None:
    """Below a torchrun of one node, the order of pids gives ranks, said to be inferred."""
    launcher = (
        "Process 10: python torchrun --nproc-per-node 2 train.py\nPython v3.11.7 (python)\n\n"
        'Thread 10 (idle): "MainThread"\n'
        "    SimpleElasticAgent._invoke_run"
        " (torch/distributed/elastic/agent/server/api.py:923)\n    <module> (torchrun:6)\n"
    )
    ranks = [
        f"Process {pid}: python train.py\nPython v3.11.7 (python)\n"
        "Parent Process 10: python torchrun --nproc-per-node 2 train.py\n\n"
        f'Thread {pid} (idle): "MainThread"\n    f (train.py:1)\n    <module> (train.py:2)\n'
        for pid in (12, 11)
    ]

    stacks = dumps(pyspy_text.READER, "\n----\n".join([launcher, *ranks]))

    assert [(d.who.pid, d.who.rank, d.who.trust) for d in stacks] == [
        (10, None, Trust.NONE),
        (12, 1, Trust.INFERRED),
        (11, 0, Trust.INFERRED),
    ]


def test_many_nodes_leave_only_local_ranks() -> None:
    """Below a torchrun of several nodes, the order of pids gives local ranks only."""
    text = (
        "Process 10: python -m torch.distributed.run --nnodes 4 train.py\n"
        'Thread 10 (idle): "MainThread"\n    run (torch/distributed/run.py:1)\n'
        "Process 11: python train.py\nParent Process 10: python -m torch.distributed.run\n"
        'Thread 11 (idle): "MainThread"\n    <module> (train.py:2)\n'
    )

    stacks = dumps(pyspy_text.READER, text)

    assert (stacks[1].who.rank, stacks[1].who.local_rank) == (None, 0)


def test_native_frames() -> None:
    """Native frames are marked, keep their library, and lose their arguments."""
    (dump,) = dumps(pyspy_text.READER, NATIVE)

    frames = dump.threads[0].frames
    assert [frame.native for frame in frames] == [True, True, True, False, False, True]
    assert (frames[2].function, frames[2].file) == ("c10d::Work::wait", "libtorch_cpu.so")


def test_locals_are_no_frames_and_tell_the_rank() -> None:
    """Locals are skipped; ``rank`` of the job's own function counts, not that of torch."""
    (dump,) = dumps(pyspy_text.READER, LOCALS)

    assert functions(dump.threads[0].frames) == ["all_reduce", "train", "<module>"]
    assert (dump.who.rank, dump.who.trust) == (2, Trust.CONTENT)


def test_index_of_mp_spawn() -> None:
    """The local ``i`` of torch's ``_wrap`` is the local rank of a spawned process."""
    (dump,) = dumps(pyspy_text.READER, SPAWNED)

    assert dump.who.local_rank == 3


def test_thread_lines_that_share_a_stack() -> None:
    """Several main threads above one stack are several processes that stand there."""
    stacks = dumps(pyspy_text.READER, SHARED, "pyspy-node48.txt")

    tops = [(dump.who.pid, dump.who.host, dump.threads[0].frames[0].function) for dump in stacks]
    assert tops == [
        (501, "node48", "broadcast"),
        (502, "node48", "broadcast"),
        (503, "node48", "get"),
    ]


CUT = """\
    recv_object (distributed/parallel_state.py:1050)
    event_loop (serve/scheduler.py:95)
    <module> (<string>:1)
    0x7fab9258b1ca (libc.so.6)
Thread 90256 (idle): "Thread-1"
    wait (threading.py:359)
    run (tqdm/_monitor.py:60)
    _bootstrap (threading.py:1030)
"""


def test_a_stack_without_its_first_lines_is_that_of_the_main_thread() -> None:
    """The threads below are not taken for it; what is no whole stack is left out."""
    (dump,) = dumps(pyspy_text.READER, CUT)
    assert [thread.name for thread in dump.threads] == ["MainThread", "Thread-1"]
    assert dump.threads[0].line == 1
    (dump,) = dumps(pyspy_text.READER, CUT.replace("    <module> (<string>:1)\n", ""))
    assert [thread.name for thread in dump.threads] == ["Thread-1"]


def test_headings_between_dumps() -> None:
    """Ranks in headings, counts of processes and lists of ranks are taken over."""
    stack = 'Thread {} (idle): "MainThread"\n    f (a.py:1)\n    <module> (a.py:2)\n'
    text = (
        "=== Rank 3: http://node1:4711 ===\n" + stack.format(5)
        + "\n6 processes are in:\n\n" + stack.format(7)
        + "\nranks 0-2:\n" + stack.format(9)
    )  # fmt: skip

    stacks = dumps(pyspy_text.READER, text)

    assert (stacks[0].who.rank, stacks[0].who.host, stacks[0].who.trust) == (
        3,
        "node1",
        Trust.CONTENT,
    )
    assert (stacks[1].copies, stacks[1].who.rank) == (6, None)
    assert [dump.who.rank for dump in stacks[2:]] == [0, 1, 2]


def test_ray_stack_of_an_old_pyspy() -> None:
    """``ray stack`` with a py-spy that named no threads: the pid is in ps's line above."""
    text = "".join(
        f"Stack dump for ray     {pid}  0.1  0.1 1751908 151888 pts/0  Sl   12:48 ray\n"
        "Thread 0x7F4AA36D9700 (active)\n\t flush (ray/profiling.py:97)\n"
        "\t _bootstrap (threading.py:884)\nThread 0x7F4AACDE7700 (active)\n"
        "\t main_loop (ray/worker.py:1005)\n\t <module> (ray/default_worker.py:105)\n\n"
        for pid in (20768, 20769)
    )

    stacks = dumps(pyspy_text.READER, text)

    assert [dump.who.pid for dump in stacks] == [20768, 20769]
    assert [thread.name for thread in stacks[1].threads] == [None, "MainThread"]


def test_equal_pids_below_the_names_of_pods() -> None:
    """Lines with the name of a pod keep apart processes that are all pid 1."""
    text = "".join(f"=== train-worker-{n} ===\n" + PLAIN.replace("4711", "1") for n in (0, 1))

    stacks = dumps(pyspy_text.READER, text)

    assert [(dump.who.host, dump.who.pid) for dump in stacks] == [
        ("train-worker-0", 1),
        ("train-worker-1", 1),
    ]


def test_ordinary_log_lines_are_no_headings() -> None:
    """A log line that speaks of a rank in passing does not name the dump below it for sure."""
    text = "2024-01-01 INFO rank 0 saved the checkpoint of step 12 to disk\n" + SHARED

    stacks = dumps(pyspy_text.READER, text)

    assert all(dump.who.trust <= Trust.INFERRED for dump in stacks)


def test_lines_woven_together_by_srun() -> None:
    """Dumps of several tasks, line by line with ``srun -l`` prefixes, are taken apart."""
    one = PLAIN.splitlines()
    other = PLAIN.replace("4711", "4712").replace("all_reduce", "barrier").splitlines()
    text = "\n".join(
        line for pair in zip(one, other, strict=True) for line in (f"0: {pair[0]}", f"1: {pair[1]}")
    )

    first, second = dumps(pyspy_text.READER, text)

    assert (first.who.rank, first.who.trust, first.who.pid) == (0, Trust.PREFIX, 4711)
    assert (second.who.rank, functions(second.threads[0].frames)[0]) == (1, "barrier")
    assert second.source.line == 2


def test_quoted_and_coloured_text() -> None:
    """Text copied from a terminal or quoted in a thread is read like the original."""
    coloured = PLAIN.replace("4711", "\x1b[1m\x1b[33m4711\x1b[0m").replace("\n", "\r\n")
    quoted = "".join(f"> {line}\n" for line in PLAIN.splitlines())

    for text in (coloured, quoted):
        (dump,) = dumps(pyspy_text.READER, text)
        assert functions(dump.threads[0].frames) == ["all_reduce", "train", "<module>"]


def test_dump_in_the_tail_of_a_large_log() -> None:
    """A dump behind megabytes of log lines is found, with its line number."""
    log = "step 1 loss 0.5\n" * 200_000

    (dump,) = dumps(pyspy_text.READER, log + PLAIN + "\nmore of the log\n", "job.log")

    assert (dump.who.pid, dump.source.line) == (4711, 200_001)


def test_titles_of_serving_processes() -> None:
    """Process titles of sglang and vLLM are labels, not ranks."""
    text = PLAIN.replace("/opt/venv/bin/python3 -u train.py", "sglang::scheduler_DP1_TP1")

    (dump,) = dumps(pyspy_text.READER, text)

    assert (dump.who.label, dump.who.rank) == ("DP1 TP1", None)


def test_other_text_is_declined() -> None:
    """A training log and an empty document are not py-spy's."""
    for text in ("step 1\nThread pool (8)\n", ""):
        assert not pyspy_text.READER.sniff(document(text))
        assert not pyspy_json.READER.sniff(document(text))
    assert os.fspath(pyspy.executable())

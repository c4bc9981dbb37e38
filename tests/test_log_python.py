"""Tracebacks: who raised what, where in the user's code, and because of what."""

from __future__ import annotations

import json

from log_docs import diagnosed_files, of, read_log

from whyhang.analyzer.facts import Frame, LogLine

TORCH = "/env/lib/python3.11/site-packages/torch"
STACK = f"""\
Traceback (most recent call last):
  File "/w/train.py", line 52, in <module>
    main()
    ~~~~^^
  File "/w/train.py", line 49, in main
    dist.all_reduce(t)
  File "{TORCH}/distributed/c10d_logger.py", line 83, in wrapper
    return func(*args, **kwargs)
  File "{TORCH}/distributed/distributed_c10d.py", line 3252, in all_reduce
    work.wait()
RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:6576
"""
LAUNCHER = f"""\
Traceback (most recent call last):
  File "/env/bin/torchrun", line 6, in <module>
    sys.exit(main())
  File "{TORCH}/distributed/run.py", line 1028, in main
    run(args)
  File "{TORCH}/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
====
"""


def exceptions(text: str, name: str = "job.log") -> list[LogLine]:
    return [line for line in of(read_log(text, name=name), LogLine) if line.raised is not None]


def prefixed(text: str, rank: int) -> list[str]:
    return [f"[rank{rank}]: {line}\n" for line in text.splitlines()]


def test_type_message_and_place() -> None:
    """The exception, the user's innermost frame, and the collective it was raised in."""
    (exception,) = exceptions("".join(prefixed(STACK, 2)))

    assert exception.who.rank == 2
    assert exception.raised.type == "RuntimeError"
    assert exception.raised.message.startswith("[pair.cc:553] Connection closed")
    assert exception.raised.frame == Frame(function="main", file="/w/train.py", line=49)
    assert exception.raised.op == "all_reduce"
    assert exception.source.line == 11


def test_tracebacks_of_ranks_written_into_each_other() -> None:
    """Prefixes keep the lines of each rank together."""
    one, two = prefixed(STACK, 1), prefixed(STACK.replace("train.py", "other.py"), 2)
    mixed = [line for pair in zip(one, two, strict=True) for line in pair]
    exception = exceptions("".join(mixed))

    assert {(f.who.rank, f.raised.frame.file) for f in exception} == {
        (1, "/w/train.py"),
        (2, "/w/other.py"),
    }


def test_the_launchers_own_exception_is_marked() -> None:
    """Torchrun's ChildFailedError is no rank's."""
    (exception,) = exceptions(LAUNCHER)

    assert exception.raised.of_launcher
    assert exception.raised.type == "ChildFailedError"


def test_chains_are_one_exception_with_its_cause() -> None:
    """What led to the exception stands beside it."""
    chain = (
        'Traceback (most recent call last):\n  File "/w/a.py", line 1, in f\n    g()\n'
        "KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "/w/b.py", line 2, in h\n    raise\n'
        "ValueError: bad batch\n"
    )
    (exception,) = exceptions(chain)

    assert exception.raised.type == "ValueError"
    assert exception.raised.frame.file == "/w/b.py"


def test_an_exception_in_a_dataloader_worker() -> None:
    """The dataset's own line is the place, and the worker is named."""
    text = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 9, in main\n'
        f'    for b in loader:\n  File "{TORCH}/_utils.py", line 7, in reraise\n'
        "    raise exception\n"
        "KeyError: Caught KeyError in DataLoader worker process 1.\n"
        "Original Traceback (most recent call last):\n"
        f'  File "{TORCH}/utils/data/_utils/fetch.py", line 54, in fetch\n    data = [...]\n'
        '  File "/w/data.py", line 45, in __getitem__\n    raise KeyError(i)\n'
        "KeyError: 'no sample 7'\n\n"
    )
    (exception,) = exceptions("".join(prefixed(text, 1)))

    assert (exception.raised.frame.file, exception.raised.frame.line) == ("/w/data.py", 45)
    assert exception.raised.message == "'no sample 7'"


def test_a_traceback_within_torchruns_table() -> None:
    """An indented traceback belongs to the rank of its row."""
    text = (
        "  rank      : 3 (local_rank: 1)\n  exitcode  : 1 (pid: 77)\n  error_file: /tmp/e.json\n"
        '  traceback : Traceback (most recent call last):\n    File "/w/t.py", line 5, in main\n'
        "      f()\n  ValueError: bad\n"
    )
    (exception,) = exceptions(text)

    assert (exception.who.rank, exception.raised.type, exception.raised.frame.file) == (
        3,
        "ValueError",
        "/w/t.py",
    )


def test_a_child_of_spawn() -> None:
    """mp.spawn's parent prints which child raised, and raises itself as the launcher."""
    text = (
        f'Traceback (most recent call last):\n  File "/w/t.py", line 9, in <module>\n'
        f'    mp.spawn(f)\n  File "{TORCH}/multiprocessing/spawn.py", line 281, in spawn\n'
        "torch.multiprocessing.spawn.ProcessRaisedException:\n\n"
        "-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n"
        f'  File "{TORCH}/multiprocessing/spawn.py", line 76, in _wrap\n    fn(i, *args)\n'
        '  File "/w/t.py", line 5, in f\n    raise ValueError\nValueError: bad\n'
    )
    parent, child = exceptions(text)

    assert parent.raised.of_launcher
    assert (child.who.local_rank, child.raised.type) == (1, "ValueError")
    assert not child.raised.of_launcher


def test_what_nccl_says_below_an_exception_is_of_who_raised_it() -> None:
    """The last lines of its message, which are not indented, carry the reason."""
    text = (
        "-- Process 3 terminated with the following error:\nTraceback (most recent call last):\n"
        '  File "/w/t.py", line 5, in f\n    destroy()\n'
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:133, unhandled\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
        "Cuda failure 'out of memory'\n"
    )
    finding = diagnosed_files({"err.txt": "mp.spawn(f)\n" + text}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("gpu-oom", (3,))


def test_what_ends_the_watchdog_is_of_the_rank_two_lines_above() -> None:
    """The header, the announcement and the error stand on a line each."""
    text = (
        "[rank3]:[E421 22:56:09 ProcessGroupNCCL.cpp:2055] [PG ID 5 PG GUID 23 Rank 1]\n"
        "Process group watchdog thread terminated with exception:\n"
        "HIP error: operation not permitted when stream is capturing\n"
    )
    finding = diagnosed_files({"tail.log": text}).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("cuda-stream-capture-broken", (3,))


def test_other_output_in_between() -> None:
    """A few lines of others do not end a traceback; one that is cut off yields nothing."""
    broken = STACK.replace("    main()\n", "    main()\niteration 7: loss 3\nepoch: 5\n")

    assert exceptions(broken)[0].raised.type == "RuntimeError"
    assert exceptions(STACK.rpartition("RuntimeError")[0]) == []


def test_an_error_file() -> None:
    """The traceback in torchrun's error.json is read, with the time and the folder's rank."""
    extra = {"py_callstack": STACK.replace("all_reduce", "x"), "timestamp": "1717761600"}
    values = {"message": {"message": "RuntimeError: [pair.cc:553]", "extraInfo": extra}}
    (exception,) = exceptions(json.dumps(values), name="run_a1/attempt_0/3/error.json")

    assert exception.who.local_rank == 3
    assert (exception.raised.type, exception.raised.frame.file) == ("RuntimeError", "/w/train.py")
    assert exception.time == 1717761600.0


def test_other_json_is_left_alone() -> None:
    """A file that only looks like an error file is scanned as it stands."""
    for text in ('{"message": {"timestamp": 1}}', '{"message": "x", "timestamp"', '{"message": 5}'):
        assert exceptions(text) == []

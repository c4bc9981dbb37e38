"""The JSON of py-spy, its command line and its failures."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from stack_docs import dumps, facts, functions

from whyhang.analyzer.facts import Gap, StackDump
from whyhang.collectors.stacks import pyspy, pyspy_json


def _thread(pid: int, tid: int, name: str, top: str) -> dict[str, object]:
    return {
        "pid": pid,
        "thread_id": 139696296749952 + tid,
        "thread_name": name,
        "os_thread_id": tid,
        "active": False,
        "owns_gil": False,
        "frames": [
            {"name": top, "filename": "/a/train.py", "module": None, "line": 3, "locals": None},
            {"name": "<module>", "filename": "/a/train.py", "module": None, "line": 9},
        ],
        "process_info": None,
    }


JSON_DUMP = [_thread(7, 8, "monitor", "run"), _thread(7, 7, "MainThread", "all_reduce")]


def test_json_dump() -> None:
    """JSON gives the same dump as text: main thread first, full file names."""
    (dump,) = dumps(pyspy_json.READER, json.dumps(JSON_DUMP, indent=2), "rank_1.json")

    assert [thread.name for thread in dump.threads] == ["MainThread", "monitor"]
    assert (dump.who.pid, dump.who.rank) == (7, 1)
    assert str(dump.threads[0].frames[0]) == "all_reduce (/a/train.py:3)"


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([JSON_DUMP, [_thread(9, 9, "MainThread", "f")]]),
        json.dumps(JSON_DUMP) + "\n" + json.dumps([_thread(9, 9, "MainThread", "f")]),
        json.dumps({"rank 0": JSON_DUMP, "rank 1": [_thread(9, 9, "MainThread", "f")]}),
        json.dumps([*JSON_DUMP, _thread(9, 9, "MainThread", "f")]),
    ],
    ids=["list of lists", "appended", "by rank", "one list"],
)
def test_json_of_several_processes(content: str) -> None:
    """Lists of lists, appended lists and objects of lists hold several processes."""
    assert [dump.who.pid for dump in dumps(pyspy_json.READER, content)] == [7, 9]


def test_json_cut_off() -> None:
    """JSON that ends early is said to; a whole list before it is kept."""
    whole = json.dumps(JSON_DUMP, indent=2)

    all_facts = facts(pyspy_json.READER, whole + "\n" + whole[: len(whole) // 2])

    assert [type(fact) for fact in all_facts] == [StackDump, Gap]


NO_NAME = "Error: Failed to get process executable name. Check that it runs.\n\nCaused by:\n    0: "
STOPPED = """\
Error: Failed to get stack traces

Caused by:
    0: Failed to suspend process
    1: unexpected waitpid result PtraceEvent(Pid(7), SIGSTOP, 128) to 7
"""


@pytest.mark.parametrize(
    ("stderr", "why"),
    [
        (NO_NAME + "No such file or directory (os error 2)\n", "ended or is a zombie"),
        ("Error: Failed to find python version from target process\n", "not a Python process"),
        (STOPPED, "stopped or traced"),
        ("Permission Denied: Try running again with elevated permissions by going 'sudo'", "may"),
        (NO_NAME + "Permission denied (os error 13)\n", "may not attach"),
        ("", "without a word"),
        ("Error: something new\n\nStack backtrace:\n 0: main", "something new"),
    ],
)
def test_failures_are_explained(stderr: str, why: str) -> None:
    """What py-spy prints on failure becomes a reason and a remedy, its backtrace never shown."""
    reason, remedy = pyspy.explain_failure(stderr)

    assert why in reason
    assert remedy
    assert "backtrace" not in reason


def test_command_never_mixes_native_and_nonblocking() -> None:
    """py-spy refuses --native with --nonblocking, so a stopped process is asked without."""
    command = pyspy.command(12, native=True, nonblocking=True, locals_=True)

    options = ["--json", "--full-filenames", "--nonblocking", "--locals"]
    assert command[1:] == ["dump", *options, "--pid", "12"]


def test_command_runs_on_a_real_process() -> None:
    """The command takes the stack of a live process, which the JSON reader reads."""
    code = "import sys, time\ndef nap():\n print(flush=True)\n time.sleep(60)\nnap()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            done = subprocess.run(
                pyspy.command(child.pid), capture_output=True, timeout=30, check=False
            )
        finally:
            child.kill()
    if done.returncode:
        pytest.skip(pyspy.explain_failure(done.stderr.decode())[0])

    (dump,) = dumps(pyspy_json.READER, done.stdout)

    assert dump.who.pid == child.pid
    assert functions(dump.threads[0].frames) == ["nap", "<module>"]

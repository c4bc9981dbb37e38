"""Stacks of which people and tools have taken the head away."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

BATON = (
    'File "/lib/python3.12/site-packages/torch/utils/file_baton.py", line 50 in wait\n'
    'File "/lib/python3.12/site-packages/torch/utils/cpp_extension.py", line 21 in _jit_compile\n'
    'File "/srv/kernels.py", line 10 in <module>\n'
)
LOADER = """\
    wait (threading.py:359)
    get (queue.py:180)
    _try_get_data (torch/utils/data/dataloader.py:1310)
    _get_data (torch/utils/data/dataloader.py:1473)
    _next_data (torch/utils/data/dataloader.py:1524)
    __next__ (torch/utils/data/dataloader.py:741)
    train (train.py:12)
"""
WRITER = """\
    poll (multiprocessing/popen_fork.py:27)
    wait (multiprocessing/popen_fork.py:43)
    join (multiprocessing/process.py:149)
    close (core/dist_checkpointing/strategies/async_utils.py:248)
    maybe_finalize_async_calls (core/dist_checkpointing/strategies/async_utils.py:537)
    train (train.py:12)
"""


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Timeout (0:02:00)!\n" + BATON, "stale-lock-file"),
        ('Thread (idle): "MainThread"\n' + LOADER, "dataloader-blocked"),
        ('Thread 4711 (idle): "MainThread"\n' + WRITER, "checkpoint-stall"),
    ],
    ids=["faulthandler", "no id", "writer"],
)
def test_a_stack_without_its_head(text: str, category: str) -> None:
    """The innermost frames tell what the process waits for."""
    findings = diagnosed_files({"stack.txt": text}).findings

    assert [finding.category for finding in findings[:1]] == [category]


@pytest.mark.parametrize(
    "text",
    [
        "Timeout (0:02:00)! The download goes on.\n" + BATON.partition("\n")[2],
        "Thread (idle) and its stack were lost\n" + LOADER,
        "0%|  | 0/5 [00:09<?, ?it/s]Traceback (most recent call last):\n  "
        + "  ".join(BATON.splitlines(keepends=True))
        + "torch._dynamo.exc.CompilerFailed: backend='inductor' raised:\n",
    ],
    ids=["no dump", "words", "an exception behind a progress bar"],
)
def test_lines_that_are_no_stack(text: str) -> None:
    """A time-out of something else, words about a thread, an exception."""
    assert not diagnosed_files({"notes.txt": text}).stack_groups

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
        ("it stands here:\n" + BATON, "stale-lock-file"),
        (BATON.replace("File", "  File"), "stale-lock-file"),
        ('Thread (idle): "MainThread"\n' + LOADER, "dataloader-blocked"),
        ('Thread 4711 (idle): "MainThread"\n' + WRITER, "checkpoint-stall"),
    ],
    ids=["faulthandler", "nothing but frames", "indented", "no id", "writer"],
)
def test_a_stack_without_its_head(text: str, category: str) -> None:
    """The innermost frames tell what the process waits for."""
    findings = diagnosed_files({"stack.txt": text}).findings

    assert [finding.category for finding in findings[:1]] == [category]


@pytest.mark.parametrize(
    "text",
    [
        "Timeout (0:02:00)! The download goes on.\n" + BATON.splitlines(keepends=True)[0],
        "It waits in __next__ (torch/utils/data/dataloader.py:741)\n\n- train (train.py:12)\n",
        "0%|  | 0/5 [00:09<?, ?it/s]Traceback (most recent call last):\n  "
        + "  ".join(BATON.splitlines(keepends=True))
        + "torch._dynamo.exc.CompilerFailed: backend='inductor' raised:\n",
    ],
    ids=["no dump", "a frame in a sentence", "an exception behind a progress bar"],
)
def test_lines_that_are_no_stack(text: str) -> None:
    """A time-out of something else, words about a thread, an exception."""
    assert not diagnosed_files({"notes.txt": text}).stack_groups


NOTED = """\
Process 4711: VLLM::Worker_TP0   ← waits for ever
    ... all_reduce (torch/distributed/distributed_c10d.py:2948)
    ... forward (model.py:91)   ← the dummy batch
Process 4712: VLLM::Worker_TP1   ← back in its loop
    ... dequeue (vllm/distributed/device_communicators/shm_broadcast.py:779) → worker_busy_loop
"""


def test_a_stack_with_notes_in_it() -> None:
    """What a person has cut out and written behind frames is not part of them."""
    diagnosis = diagnosed_files({"stacks.txt": NOTED})

    first, second = diagnosis.stack_groups
    assert [frame.partition(" ")[0] for frame in first.frames] == ["all_reduce", "forward"]
    assert [frame.partition(" ")[0] for frame in second.frames] == ["dequeue"]
    assert {row.rank: row.state for row in diagnosis.ranks} == {0: "waiting", 1: "blocked"}


def test_notes_without_stacks() -> None:
    """An arrow behind a process, or behind a line of source, makes no stack."""
    text = "Process 4711: VLLM::Worker_TP0   ← idle\n  ... and so on → next\n"

    assert not diagnosed_files({"notes.txt": text}).stack_groups


IN_BARRIER = """\
barrier (torch/distributed/distributed_c10d.py:5030)
encode (prepare.py:66)
main (prepare.py:349)
"""
AT_A_VIDEO = """\
read_frames (clips/decode.py:319)
encode (prepare.py:70)
main (prepare.py:349)
"""


def test_frames_and_nothing_else() -> None:
    """Two lines of frames in a row are a stack, of the rank that its file or its heading names."""
    for files in (
        {"rank0_stack.txt": AT_A_VIDEO, "rank1_stack.txt": IN_BARRIER},
        {"notes.md": f"Rank 0:\n{AT_A_VIDEO}\nRank 1:\n{IN_BARRIER}"},
    ):
        finding = diagnosed_files(files).findings[0]

        assert (finding.category, finding.culprit_ranks) == ("missing-rank-in-collective", (0,))


def test_stacks_of_nobody_knows_whom_are_those_of_two_processes() -> None:
    """Without a thread's number or a heading the second stack is no later look at the first."""
    report = diagnosed_files({"dumps.txt": f"{AT_A_VIDEO}\nand the others:\n\n{IN_BARRIER}"})

    assert report.verdict == "hung"
    assert len(report.ranks) == 2


def test_a_thread_keeps_its_outermost_function() -> None:
    """What was pasted of a loader's worker is no progress of the rank that its file names."""
    worker = "read_frames (clips/decode.py:319)\nfetch (clips/decode.py:411)\n"
    job = {"rank0_stack.txt": AT_A_VIDEO, "rank0_b_stack.txt": worker, "rank1.txt": IN_BARRIER}
    finding = diagnosed_files(job).findings[0]

    assert finding.category != "slow-not-hung"


def _standing(*lines: int) -> str:
    """Dump ranks that sleep in a library of their own, one line of the program each."""
    return "".join(
        f"Rank {rank}:\nThread 0x7f0{rank} (most recent call first):\n"
        f'  File "/srv/exchange.py", line {line} in pull_halo\n'
        f'  File "/srv/solve.py", line 40 in main\n\n'
        for rank, line in enumerate(lines)
    )


def test_who_stands_apart() -> None:
    """One of four at another line of calls that nobody knows is a possibility."""
    first = diagnosed_files({"dump.txt": _standing(71, 71, 95, 71)}).findings[0]

    assert (first.signature, first.culprit_ranks) == ("stands-apart", (2,))
    assert first.confidence < 0.5


@pytest.mark.parametrize("lines", [(71, 71, 71, 71), (71, 95), (71, 71, 95, 95), (71, 80, 95)])
def test_no_rank_apart(lines: tuple[int, ...]) -> None:
    """All at one line, and no clear majority, single out nobody."""
    findings = diagnosed_files({"dump.txt": _standing(*lines)}).findings

    assert "stands-apart" not in [finding.signature for finding in findings]

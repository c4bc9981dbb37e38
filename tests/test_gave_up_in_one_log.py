"""Ranks that gave up waiting in one log, and the few of which there is no word in it."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

STOOD = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/app/solver.py", line 41, in advance\n'
    "[rank{0}]:     dist.all_to_all_single(halo, own)\n"
    '[rank{0}]:   File "/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", '
    "line 2810, in all_to_all_single\n"
    "[rank{0}]:     work.wait()\n"
    "[rank{0}]: RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
    "1800000ms for recv operation to complete\n"
)


def all_but(*absent: int, of: int) -> str:
    """Return what each rank but the absent prints as it gives up."""
    return "".join(STOOD.format(rank) for rank in range(of) if rank not in absent)


@pytest.mark.parametrize(
    ("files", "culprits"),
    [
        ({"out.log": all_but(1, of=4)}, (1,)),  # a hole in the numbers is a rank
        ({"out.log": "world_size: 5\n" + all_but(4, of=5)}, (4,)),
        ({"out.log": all_but(of=4)}, None),
        ({"out.log": all_but(1, 2, of=4)}, None),  # as many as those that wait
        ({f"rank{n}.log": STOOD.format(n) for n in (0, 2, 3)}, None),  # its file was not given
        ({"out.log": "[rank1]: left for good\n" + all_but(1, of=4)}, (1,)),
    ],
    ids=["hole", "world size", "all", "half", "files", "a word before"],
)
def test_few_without_a_word(files: dict[str, str], culprits: tuple[int, ...] | None) -> None:
    """Where all others gave up in one call, in the log of all, the few have not come to it."""
    first = diagnosed_files(files).findings[0]

    assert first.culprit_ranks == culprits


WATCHDOG = (
    "[rank{0}]:[E603 07:{1}:17.552992855 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=36, OpType=ALLREDUCE, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600038 milliseconds before timing out.\n"
)
TORN = (
    "[rank5]:[E603 07:{}:17.552992855 ProcessGroupNCCL.cpp:1895] [PG 0 Rank 5] Process "
    "group watchdog thread terminated with exception: [Rank 5] a collective timed out\n[ran"
)


@pytest.mark.parametrize(("minute", "culprits"), [(24, (2,)), (23, None)])
def test_a_log_that_breaks_off_long_behind(minute: int, culprits: tuple[int, ...] | None) -> None:
    """Who waits for the same gives up within seconds: a minute later nobody else would have."""
    gave_up = "".join(WATCHDOG.format(rank, 23) for rank in range(6) if rank != 2)
    report = diagnosed_files({"out.log": "world_size=6\n" + gave_up + TORN.format(minute)})

    assert report.findings[0].culprit_ranks == culprits

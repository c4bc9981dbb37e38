"""Whom a line means that no label, no file and no pid gives to a rank."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Finding

ILLEGAL = (
    "  what():  [PG ID {group} PG GUID {group} Rank {rank}] Process group watchdog thread "
    "terminated with exception: CUDA error: an illegal memory access was encountered\n"
)
NO_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {gpu} has a total "
    "capacity of 79.15 GiB of which 1.20 GiB is free.\n"
)
RAISED = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n    go()\n'


def first(text: str) -> Finding:
    """Return what comes first in the diagnosis of one log."""
    return diagnosed_files({"job.log": text}).findings[0]


def test_a_rank_of_some_group_where_no_other_number_is_known() -> None:
    """Its number is all there is; where ranks are numbered otherwise, it is not one of theirs."""
    assert first(ILLEGAL.format(group=3, rank=5)).culprit_ranks == (5,)
    two = ILLEGAL.format(group=3, rank=5) + ILLEGAL.format(group=4, rank=1)
    assert first(two).culprit_ranks is None
    assert first(f"[rank9]: step 4\n{ILLEGAL.format(group=3, rank=1)}").culprit_ranks != (1,)


@pytest.mark.parametrize(
    ("gpu", "above", "ranks"),
    [
        (3, "", (3,)),
        (0, "", None),  # it may be the only one that the process sees
        (3, "[rank11]: ", (11,)),
        (3, "world_size: 64\n", None),
    ],
)
def test_the_rank_on_a_gpu(gpu: int, above: str, ranks: tuple[int, ...] | None) -> None:
    """Launchers give local rank n the n-th GPU; on one host that is the rank."""
    assert first(above + NO_MEMORY.format(gpu=gpu)).culprit_ranks == ranks


@pytest.mark.parametrize(("times", "category"), [(2, "not-distributed"), (1, "rank-died")])
def test_an_error_as_often_as_there_are_ranks(times: int, category: str) -> None:
    """An exception that every rank raises is the program's."""
    world = "[INFO] [launch.py:100:main] dist_world_size=2\n"
    error = f"{RAISED}NameError: name 'go' is not defined\n"

    assert first(world + error * times).category == category


def test_the_other_one_of_two() -> None:
    """A rank of two that loses its peer has lost the other one."""
    world = "[INFO] [launch.py:100:main] dist_world_size=2\n"
    lost = "[rank1]: RuntimeError: [gloo/pair.cc:534] Connection closed by peer [10.1.0.2]:4711\n"

    assert first(world + lost).culprit_ranks == (0,)


NO_ID = (
    "{label}RuntimeError: [{number}] is setting up NCCL communicator and retrieving ncclUniqueId "
    "from [0] via c10d key-value store by key '{key}', but store->get('{key}') got error: Socket "
    "Timeout\n"
)


@pytest.mark.parametrize(
    ("waiting", "ranks"),
    [
        (["", 2, "0"], (0,)),
        (["[rank9]: ", 1, "0"], None),  # it is numbered within a smaller group
        (["", 1, "0:1"], None),  # a send to one other rank
    ],
    ids=["default group", "smaller group", "pair"],
)
def test_whose_nccl_id_never_came(waiting: list[object], ranks: tuple[int, ...] | None) -> None:
    """The first rank of a group publishes it, which mostly is the group of all ranks."""
    label, number, key = waiting
    line = NO_ID.format(label=label, number=number, key=key)

    assert first(line).culprit_ranks == ranks
    assert first(line * 2).culprit_ranks is None  # two groups have a member of that number

"""Which ranks ran on a host, by hostfiles, lists of tasks, and what each node's log says of it."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

LOST = "  HNP daemon   : [[3,0],0] on node t01\n  Remote daemon: [[3,0],2] on node t03\n"
HOSTS = "".join(f"t0{n} slots=2\n" for n in range(1, 5))


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        ("mpirun -np 8 --hostfile hosts ./lbm\n", (4, 5)),
        ("mpirun -np 6 --hostfile hosts ./lbm\n", None),
        ("mpirun -np 8 --hostfile hosts --map-by node ./lbm\n", None),
    ],
    ids=["in order", "fewer than slots", "in another order"],
)
def test_the_ranks_of_a_host_in_a_hostfile(command: str, ranks: tuple[int, ...] | None) -> None:
    """Slots are filled in order where there are as many as ranks."""
    logs = {"hosts": HOSTS, "run.sh": command, "run.log": LOST}
    (finding, *_) = diagnosed_files(logs).findings

    assert (finding.signature, finding.culprit_ranks) == ("mpi-lost-daemon", ranks)


def test_the_ranks_of_a_host_in_a_list_of_tasks() -> None:
    """A list of tasks says where each is; of one task and one of another it does not."""
    tasks = "".join(f"task {n:2} n01{n // 4} cuda:{n % 4}\n" for n in range(8))
    failed = "srun: error: Node failure on n011\n"
    (finding, *_) = diagnosed_files({"slurm.out": tasks + failed}).findings

    assert finding.culprit_ranks == (4, 5, 6, 7)
    (finding, *_) = diagnosed_files({"slurm.out": "task 3 of n011 begins\n" + failed}).findings
    assert finding.culprit_ranks is None


RAISED = (
    "{0}Traceback (most recent call last):\n"
    '{0}  File "train.py", line 4, in main\n{0}    go()\n{0}ValueError: no such expert\n'
)


@pytest.mark.parametrize(
    ("node", "label", "rank"),
    [
        ("NODE_RANK=1 NPROC=2", "[local 1] ", 3),
        ("torchrun --nnodes=2 --node_rank=1 --nproc_per_node=4 train.py", "[default1]:", 5),
        ("node rank 2, procs per node: 8", "[lr 7] ", 23),
        ("NODE_RANK=1 of 2", "[local 1] ", None),
        ("NODE_RANK=1 NPROC=2\nNODE_RANK=0 NPROC=2", "[local 1] ", None),
    ],
)
def test_the_rank_behind_a_local_one(node: str, label: str, rank: int | None) -> None:
    """The log of a node says which node it is, and how many ranks each has."""
    text = f"{node}\n{label}step 1\n" + RAISED.format(label)
    (finding, *_) = diagnosed_files({"node.log": text}).findings

    assert finding.culprit_ranks == (None if rank is None else (rank,))

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


@pytest.mark.parametrize(("rows", "ranks"), [("n1:2\nn2:2\nn3:2\n", (2, 3)), ("n1:2\n", None)])
def test_the_ranks_of_a_host_in_a_machinefile(rows: str, ranks: tuple[int, ...] | None) -> None:
    """MPICH's machinefiles hold nothing but hosts and their slots."""
    lost = "[mpiexec@n1] control_cb (x.c:208): connection to proxy 1 at host n2 failed\n"
    logs = {"machines": rows, "go.sh": "mpiexec -f machines -n 6 ./wave\n", "out.txt": lost}
    (finding, *_) = diagnosed_files(logs).findings

    assert (finding.signature, finding.culprit_ranks) == ("mpi-lost-daemon", ranks)


def test_global_ranks_beside_local_ones() -> None:
    """Lines with a local rank in front and the global one in them say how they go together."""
    steps = "".join(
        f"[default{n}]:step {s} rank {4 + n} loss 2\n" for s in (1, 2) for n in range(4)
    )
    (finding, *_) = diagnosed_files({"node1.log": steps + RAISED.format("[default2]:")}).findings

    assert finding.culprit_ranks == (6,)


def test_a_pod_whose_state_is_unknown() -> None:
    """Its node does not answer; ranks are counted as operators count."""
    table = "NAME    READY  STATUS   RESTARTS  AGE\nsft-0   1/1    Running  0         3h\n"
    pods = table + "sft-1   1/1    Running  0         3h\nsft-2   0/1    Unknown  0         3h\n"
    log = "torchrun --nnodes 3 --nproc_per_node 2 sft.py\n[rank1]: step 3\n"
    (finding, *_) = diagnosed_files({"pods.txt": pods, "sft-0.log": log}).findings

    assert (finding.category, finding.culprit_ranks) == ("rank-died", (4, 5))

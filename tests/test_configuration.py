"""Scripts, specifications and printed environments are evidence: what they set is compared."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

JOINED = (
    "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. "
    "{}/{} clients joined.\n"
)
SBATCH = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n"
STEPS = "".join(f"epoch 0 step {step} loss 2.{step}\n" for step in range(40))
SPEC = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Master:\n"
    "      replicas: 1\n    Worker:\n      replicas: {}\n"
)


@pytest.mark.parametrize(
    ("name", "script", "joined", "title"),
    [
        pytest.param(
            "job.sbatch",
            SBATCH.format(4, 4) + "source env.sh\npython train.py --config a.yaml\n",
            (1, 16),
            "Only 1 rank of 16 started: python train.py",
            id="python without srun",
        ),
        pytest.param(
            "run.sh",
            SBATCH.format(2, 1) + "GPUS=8\ntorchrun --nnodes=2 \\\n  --nproc_per_node=$GPUS a.py\n",
            (8, 16),
            "Only 8 ranks of 16 started: torchrun",
            id="torchrun on the first node alone",
        ),
        pytest.param(
            "submit.slurm",
            SBATCH.format(1, 8) + "srun -n 4 --cpu-bind=none python -m train\n",
            (4, 8),
            "Only 4 ranks of 8 started: srun -n 4",
            id="srun of fewer tasks",
        ),
        pytest.param(
            "mpi.sbatch",
            SBATCH.format(2, 4) + "mpirun -np 6 ./bench\n",
            (6, 8),
            "Only 6 ranks of 8 started: mpirun -np 6",
            id="mpirun of fewer processes",
        ),
        pytest.param(
            "job.yaml", SPEC.format(2), (3, 4), "Only 3 ranks of 4 started", id="too few replicas"
        ),
    ],
)
def test_a_plan_that_starts_fewer_ranks_than_the_job_waits_for(
    name: str, script: str, joined: tuple[int, int], title: str
) -> None:
    """Nobody is late: the rest were never started, and the line that starts them is quoted."""
    first = diagnosed_files({"job.log": JOINED.format(*joined), name: script}).findings[0]

    # What is started once is rank 0; of several, which ones came is not known.
    missing = tuple(range(1, joined[1])) if joined[0] == 1 else None
    assert (first.signature, first.culprit_ranks) == ("launch-starts-fewer", missing)
    assert first.title.startswith(title)


@pytest.mark.parametrize(
    ("script", "log"),
    [
        (SBATCH.format(4, 4) + "srun python train.py\n", JOINED.format(15, 16)),
        (
            SBATCH.format(2, 1) + "srun torchrun --nnodes 2 --nproc_per_node 8 a.py\n",
            JOINED.format(9, 16),
        ),
        (
            SBATCH.format(2, 1) + "for n in a b; do ssh $n torchrun a.py & done\n",
            JOINED.format(9, 16),
        ),
        (SBATCH.format(2, 8) + "torchrun --nproc_per_node=$UNKNOWN a.py\n", JOINED.format(9, 16)),
        (SBATCH.format(2, 4) + "python prepare.py\nsrun python train.py\n", JOINED.format(7, 8)),
        (SBATCH.format(1, 8) + "python train.py  # spawns its ranks\n", STEPS),
        (SPEC.format(3), JOINED.format(3, 4)),
    ],
)
def test_a_plan_that_starts_enough_or_cannot_be_counted_is_no_cause(script: str, log: str) -> None:
    """Every task has one, or loops, variables and the program itself start them."""
    name = "job.yaml" if script.startswith("api") else "job.sbatch"
    findings = diagnosed_files({"job.log": log, name: script}).findings

    assert "launch-starts-fewer" not in {one.signature for one in findings}


@pytest.mark.parametrize(
    ("nodes", "master", "blamed"),
    [
        (2, "localhost", True),
        (4, '"127.0.0.1"', True),
        (2, "::1", True),
        (1, "localhost", False),
        (2, "$(hostname)", False),
        (2, "10.0.0.7", False),
    ],
)
def test_a_master_that_is_each_host_itself(nodes: int, master: str, *, blamed: bool) -> None:
    """On one host it is right; what the batch script asks its own host for is rank 0's."""
    script = SBATCH.format(nodes, 1) + f"export MASTER_ADDR={master}\nsrun python train.py\n"
    findings = diagnosed_files({"a.log": JOINED.format(1, nodes), "a.sbatch": script}).findings

    assert ("launch-master-is-local" in {one.signature for one in findings}) is blamed


def environ(**settings: str) -> str:
    """Print an environment."""
    return "HOME=/root\n" + "".join(f"{name}={value}\n" for name, value in settings.items())


REFUSED = "[c10d] The client socket has failed to connect to [node9]:29500 (errno: 111)\n"


@pytest.mark.parametrize(
    ("odd", "usual", "signature"),
    [
        ({"MASTER_ADDR": "node9"}, {"MASTER_ADDR": "node0"}, "printed-master-differs"),
        ({"MASTER_PORT": "29501"}, {"MASTER_PORT": "29500"}, "printed-master-differs"),
        ({"WORLD_SIZE": "8"}, {"WORLD_SIZE": "4"}, "printed-world-size-differs"),
        ({"NCCL_SOCKET_IFNAME": "eth1"}, {"NCCL_SOCKET_IFNAME": "eth0"}, None),
        ({"MASTER_ADDR": "node0"}, {"MASTER_ADDR": "node0"}, None),
    ],
)
def test_printed_environments_are_compared(
    odd: dict[str, str], usual: dict[str, str], signature: str | None
) -> None:
    """One rank of four was told another master or size; an interface may differ by host."""
    files = {f"rank{n}.env": environ(**(odd if n == 2 else usual)) for n in range(4)}
    findings = diagnosed_files(files).findings
    chosen = [one for one in findings if one.signature.startswith("printed-")]

    assert [one.signature for one in chosen] == ([signature] if signature else [])
    assert all(one.culprit_ranks == (2,) for one in chosen)


@pytest.mark.parametrize(
    "header",
    ["", "[2026-11-23 03:00:02] ", "INFO:root:launching with ", "2026-11-23 03:00 | env: "],
)
def test_a_program_prints_its_environment_behind_a_header(header: str) -> None:
    """All at the end of a line; what only speaks of one variable is no print."""
    line = header + "MASTER_ADDR=n0 MASTER_PORT={} RANK={} WORLD_SIZE=4\n"
    files = {f"worker{n}.log": line.format(29501 if n == 2 else 29500, n) for n in range(4)}
    first = diagnosed_files(files).findings[0]
    assert (first.signature, first.culprit_ranks) == ("printed-master-differs", (2,))

    said = {f"rank{n}.log": f"please set MASTER_PORT={29500 + n // 3}\n" for n in range(4)}
    assert not any(one.signature.startswith("printed-") for one in diagnosed_files(said).findings)


SPAWNED = (
    "\n-- Process {} terminated with the following error:\nTraceback (most recent call last):\n"
)


def test_hosts_without_ranks_are_compared() -> None:
    """What mp.spawn numbers on each host is no rank."""
    texts = [environ(MASTER_PORT=str(29500 + n)) + SPAWNED.format(1 - n) + REFUSED for n in (0, 1)]
    first = diagnosed_files({f"node{n}.out": text for n, text in enumerate(texts)}).findings[0]
    assert (first.signature, first.culprit_ranks) == ("printed-master-differs", None)
    assert first.title.startswith("Node1 has MASTER_PORT=29501")

    runs = {f"node1/{one}.out": text for one, text in zip(("old", "new"), texts, strict=True)}
    findings = diagnosed_files(runs).findings
    assert not any(one.signature.startswith("printed-") for one in findings)


def test_a_job_that_trains_does_not_mind_what_was_printed() -> None:
    """Names of one host may differ, and the job goes on."""
    files = {f"rank{n}.env": environ(MASTER_ADDR=f"10.0.{n}.1") for n in range(3)}
    findings = diagnosed_files({**files, "job.log": STEPS}).findings

    assert not [one for one in findings if one.signature.startswith("printed-")]


def test_one_host_that_fell_back_to_sockets() -> None:
    """Three ranks chose InfiniBand, the fourth plain sockets: they never connect."""
    line = "node{n}:10{n}:10{n} [0] NCCL INFO "
    init = "ncclCommInitRank comm 0x5{n} rank {n} nranks 4 cudaDev 0 busId 1b000 - Init START\n"
    log = "".join(
        f"{line}Using network {'Socket' if n == 3 else 'IB'}\n{line}{init}".format(n=n)
        for n in range(4)
    )
    first = diagnosed_files({"job.log": log}).findings[0]

    assert (first.signature, first.culprit_ranks) == ("nccl-networks-differ", (3,))
    assert "Socket" in first.title


ONE_OF_TWO = JOINED.format(1, 2)
HEAD = "eth0   10.1.0.1/24\n{}   192.168.7.5/24\nlo   127.0.0.1/8\n"


@pytest.mark.parametrize(
    ("files", "title"),
    [
        pytest.param(
            {
                "head.log": f"Local node IP: 192.168.7.5\n{ONE_OF_TWO}",
                "if.txt": HEAD.format("wlp2s0"),
            },
            "192.168.7.5, where ranks are to meet, is the address of wlp2s0: the wireless card",
            id="the address that a framework chose is that of the wireless card",
        ),
        pytest.param(
            {"rank0.env": environ(MASTER_ADDR="192.168.7.5"), "ip.txt": HEAD.format("docker0")},
            "192.168.7.5, where ranks are to meet, is the address of docker0: a network within",
            id="MASTER_ADDR is that of a bridge of containers",
        ),
        pytest.param(
            {
                "a.env": environ(MASTER_ADDR="192.168.7.5"),
                "node0_ip.txt": HEAD.format("ib0"),
                "node1_ip.txt": "eth0   UP   10.1.0.2/24\neth1   UP   172.30.0.2/24\n",
            },
            "192.168.7.5, where ranks are to meet, is the address of ib0 on node0: a network in "
            "which no other host is",
            id="a network that the other host is not in",
        ),
        pytest.param(
            {"a.env": environ(MASTER_ADDR="10.1.0.1"), "ip.txt": HEAD.format("wlp2s0")},
            None,
            id="the address of the card that joins the hosts",
        ),
        pytest.param(
            {"a.env": environ(MASTER_ADDR="192.168.7.5"), "ip.txt": "wlan0 UP 192.168.7.5/24\n"},
            None,
            id="a host that has nothing else",
        ),
        pytest.param(
            {
                "a.env": environ(MASTER_ADDR="192.168.7.5"),
                "node0_ip.txt": HEAD.format("ib0"),
                "node1_ip.txt": "eth0   UP   10.1.0.2/24\nib0   UP   192.168.7.6/24\n",
            },
            None,
            id="a network of both hosts",
        ),
        pytest.param(
            {"store.log": f"node IP: 192.168.7.5\n{STEPS}", "ip.txt": HEAD.format("wlp2s0")},
            None,
            id="a job that trains",
        ),
    ],
)
def test_an_address_is_held_against_the_tables_of_interfaces(
    files: dict[str, str], title: str | None
) -> None:
    """Whose address it is, and who else is in its network, tells whether others reach it."""
    findings = diagnosed_files({"store.log": ONE_OF_TWO, **files}).findings
    chosen = [one for one in findings if one.signature == "address-out-of-reach"]

    assert bool(chosen) is (title is not None)
    assert not title or (chosen[0] is findings[0] and chosen[0].title.startswith(title))
    assert all(one.culprit_ranks in {None, (1,)} for one in findings)


def ulimit(locked: str) -> str:
    """Print the limits of a shell."""
    return (
        "core file size              (blocks, -c) 0\n"
        f"max locked memory           (kbytes, -l) {locked}\n"
        "open files                          (-n) 1048576\n"
    )


PROC = "Limit           Soft Limit  Hard Limit  Units\nMax locked memory   {}  {}  bytes\n"
STARTED = "".join(
    f"node{n}:10{n}:10{n} [0] NCCL INFO ncclCommInitRank comm 0x5{n} rank {n} nranks 4 cudaDev 0 "
    "busId 1b000 - Init START\n"
    for n in range(4)
)


@pytest.mark.parametrize(
    ("odd", "usual", "culprits"),
    [
        (ulimit("64"), ulimit("unlimited"), (2,)),
        (PROC.format(65536, 65536), PROC.format("unlimited", "unlimited"), (2,)),
        (f"me@node2:~$ ulimit -a\n{ulimit('8192')}", ulimit("unlimited"), (2,)),
        (ulimit("unlimited"), ulimit("unlimited"), None),
        (PROC.format(65536, 65536), ulimit("64"), None),
    ],
)
def test_limits_of_hosts_are_compared(
    odd: str, usual: str, culprits: tuple[int, ...] | None
) -> None:
    """One host may lock less memory than the others, in whichever print says so."""
    files = {f"node{n}_limits.txt": odd if n == 2 else usual for n in range(4)}
    findings = diagnosed_files({"job.log": STARTED, **files}).findings
    chosen = [one for one in findings if one.signature == "locked-memory-differs"]

    assert [one.culprit_ranks for one in chosen] == ([culprits] if culprits else [])


ASKED = "me@node{}:~$ hostname -i\n{}\n"


@pytest.mark.parametrize(
    ("text", "log", "blamed"),
    [
        (ASKED.format(0, "127.0.1.1") + ASKED.format(1, "127.0.1.1"), JOINED.format(1, 2), True),
        (ASKED.format(0, "127.0.1.1") + ASKED.format(1, "10.0.0.2"), JOINED.format(1, 2), True),
        (ASKED.format(0, "::1 127.0.0.1") + ASKED.format(1, "10.0.0.2"), JOINED.format(1, 2), True),
        (ASKED.format(0, "10.0.0.1") + ASKED.format(1, "10.0.0.2"), JOINED.format(1, 2), False),
        (ASKED.format(0, "10.0.0.1 127.0.1.1") + ASKED.format(1, "10.0.0.2"), ONE_OF_TWO, False),
        (ASKED.format(0, "127.0.1.1"), JOINED.format(1, 2), False),
        (ASKED.format(0, "127.0.1.1") + ASKED.format(1, "127.0.1.1"), STEPS, False),
    ],
)
def test_a_host_whose_name_is_its_loopback(text: str, log: str, *, blamed: bool) -> None:
    """Of two hosts at least one finds itself under its name; the other never reaches it there."""
    findings = diagnosed_files({"job.log": log, "names.txt": text}).findings

    assert ("host-name-is-loopback" in {one.signature for one in findings}) is blamed

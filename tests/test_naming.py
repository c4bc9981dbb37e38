"""File names and line prefixes: what they say of a rank, and what they must not be taken for."""

from __future__ import annotations

import pytest

from whyhang.analyzer.facts import NOBODY, Trust, Who
from whyhang.collectors.files import naming
from whyhang.collectors.logs.text.prefix import is_numbered, skip_clock, split_prefix


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank3.txt", 3),
        ("rank_3.log", 3),
        ("logs/rank-0012/py-spy.txt", 12),
        ("r03/stack.txt", 3),
        ("nccl_trace_rank_3", 3),
        ("comm_lib_trace_rank_17", 17),
        ("nccl_trace_rank_hostA_12", 12),
        ("rank3_of_8.txt", 3),
        ("rank3_20241011_120000.txt.gz", 3),
        ("pyspy_rank00012_host0003.txt", 12),
        ("node48/rank3.log.1", 3),
        ("GLOBAL_RANK=5.out", 5),
    ],
)
def test_ranks_that_a_name_spells_out(path: str, rank: int) -> None:
    """A number behind the word rank, or r, is a rank."""
    who = naming.from_path(path)

    assert (who.rank, who.trust) == (rank, Trust.FILE_NAME)


@pytest.mark.parametrize(
    "path",
    [
        "trace_2024-10-11.txt",
        "pyspy_20241011_120000.txt",
        "dump_241011.txt",
        "master_29500.log",
        "slurm-99123.err",
        "job-1528763.out",
        "node_rank_1.log",
        "ranks8.txt",
        "run7/output.txt",
        "epoch_3.log",
        "10.0.0.3.txt",
        "local_rank_2.txt",
        "stack_12345.txt",
    ],
)
def test_numbers_that_are_no_ranks(path: str) -> None:
    """Dates, ports, jobs, nodes, counts, addresses and pids are not taken for a rank."""
    who = naming.from_path(path)

    assert who.rank is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pyspy-node48.txt", Who(host="node48")),
        ("none_ab12/attempt_0/3/stderr.log", Who(local_rank=3)),
        ("node3/none_ab12/attempt_1/0/stdout.log", Who(host="node3", local_rank=0)),
        ("nccl.gpu-12.cluster.local.4711", Who(host="gpu-12.cluster.local", pid=4711)),
        ("stack_12345.txt", Who(pid=12345)),
        ("ip-10-0-1-23/py-spy.12345.txt", Who(host="ip-10-0-1-23", pid=12345)),
        ("gpu3.txt", Who(local_rank=3)),
        ("DP0_TP3.txt", Who(label="DP0_TP3")),
        ("notes.txt", NOBODY),
    ],
)
def test_other_things_that_names_say(path: str, expected: Who) -> None:
    """Hosts, pids, local ranks and places in a mesh are kept as what they are."""
    assert naming.from_path(path) == expected


def test_bare_numbers_that_count_from_zero_are_ranks() -> None:
    """stack_0 to stack_2 beside each other are ranks; stack_1 and stack_2 alone may be looks."""
    counted = naming.together([f"a/stack_{n}.txt" for n in (0, 1, 2)])
    holed = naming.together(["a/stack_1.txt", "a/stack_2.txt"])

    assert [(who.rank, who.trust) for who in counted] == [(n, Trust.INFERRED) for n in (0, 1, 2)]
    assert [who.rank for who in holed] == [None, None]


def test_bare_numbers_in_several_folders_are_local_ranks() -> None:
    """host0/0 and host1/0 are local ranks of two hosts."""
    owners = naming.together(["host0/0.txt", "host0/1.txt", "host1/0.txt", "host1/1.txt"])

    assert [(who.host, who.rank, who.local_rank) for who in owners] == [
        ("host0", None, 0),
        ("host0", None, 1),
        ("host1", None, 0),
        ("host1", None, 1),
    ]


def test_log_folders_of_several_agents() -> None:
    """Local rank 0 in two log folders of torchrun is two processes; attempts of one are one."""
    paths = [f"logs/{run}/attempt_{n}/0/stderr.log" for run, n in (("r_a", 0), ("r_a", 1))]

    one = naming.together(paths)
    two = naming.together([*paths, "logs/r_b/attempt_0/0/stderr.log"])

    assert [(who.host, who.local_rank) for who in one] == [(None, 0), (None, 0)]
    assert [who.host for who in two] == ["r_a", "r_a", "r_b"]


def test_workers_beside_a_master() -> None:
    """worker-0 may be rank 0, but not where a master, rank 0 by Kubeflow's rule, is beside it."""
    alone = naming.together(["worker-0.log", "worker-7.log"])
    beside = naming.together(["worker-0.log", "worker-7.log", "master-0.log"])

    assert [(who.rank, who.label) for who in alone] == [(0, "worker-0"), (7, "worker-7")]
    assert [who.rank for who in beside] == [None, None, None]


def test_natural_order() -> None:
    """rank9 stands before rank10."""
    assert sorted(["rank10", "rank9", "rank"], key=naming.natural) == ["rank", "rank9", "rank10"]


def test_titles() -> None:
    """The telling part of a name is what is left without the tool's."""
    titles = [naming.title(name) for name in ("gdb-slaves.txt", "a/pyspy.txt", "before.out.gz")]

    assert titles == ["slaves", None, "before"]


@pytest.mark.parametrize(
    ("line", "who", "rest"),
    [
        ("[rank3]:[E1206 18:44:16.9 P.cpp:1]", Who(rank=3, trust=Trust.PREFIX), "[E1206 18:44"),
        ('[rank1]:   File "x"', Who(rank=1, trust=Trust.PREFIX), '  File "x"'),
        ("[default3]:  text", Who(local_rank=3), "  text"),
        ("[default3]:[rank11]:[E", Who(rank=11, trust=Trust.PREFIX, local_rank=3), "[E"),
        ("[Rank 3] text", Who(rank=3, trust=Trust.PREFIX), "text"),
        ("[rank: 0] Seed", Who(rank=0, trust=Trust.PREFIX), "Seed"),
        ("rank 1: returned", Who(rank=1, trust=Trust.PREFIX), "returned"),
        ("[1,3]<stderr>:text", Who(rank=3, trust=Trust.PREFIX), "text"),
        ("[prterun-a-12@1,3]<stdout>: text", Who(rank=3, trust=Trust.PREFIX), "text"),
        (
            "(RayTrainWorker pid=12, ip=10.0.0.1) text",
            Who(pid=12, host="10.0.0.1", label="RayTrainWorker"),
            "text",
        ),
        ("\x1b[36m(f pid=12)\x1b[0m text", Who(pid=12, label="f"), "text"),
        (
            "(VllmWorker rank=3 pid=12) text",
            Who(rank=3, trust=Trust.PREFIX, pid=12, label="VllmWorker"),
            "text",
        ),
        ("worker-3: text", Who(host="worker-3", label="worker-3"), "text"),
        ("[pod/job-worker-3/main] text", Who(host="job-worker-3", label="job-worker-3"), "text"),
    ],
)
def test_prefixes(line: str, who: Who, rest: str) -> None:
    """Each launcher's prefix says whom the line is about and is taken off it."""
    speaker, left = split_prefix(line)

    assert speaker == who
    assert left.startswith(rest)


@pytest.mark.parametrize(
    "line",
    [
        "[E ProcessGroupNCCL.cpp:821] [Rank 3] Watchdog caught",
        "[W socket.cpp:426] [c10d] The server socket",
        "[2024-10-11 12:12:12] text",
        "[0]:",
        "3: text",
        "(raylet) text",
        "[step3]: text",
        "host1:123:456 [0] NCCL INFO text",
        "",
    ],
)
def test_lines_without_a_prefix(line: str) -> None:
    """Headers of torch and NCCL, dates and bare numbers are no prefixes."""
    if line.startswith("[step3]"):
        assert split_prefix(line)[0].rank is None
    else:
        assert split_prefix(line) == (NOBODY, line)


def test_numbered_lines() -> None:
    """Bare numbers count where every line has one; behind them torchrun's prefix tells more."""
    lines = ["0: step 1", "1: step 1", "00: step 2", "3: "]

    assert is_numbered(lines)
    assert not is_numbered(["0: step 1", "text", "text"])
    assert split_prefix("12: text", numbered=True) == (Who(rank=12, trust=Trust.PREFIX), "text")
    assert split_prefix("2: [default3]:text", numbered=True) == (Who(local_rank=3), "text")
    assert split_prefix("12:13:14 text", numbered=True)[0] == NOBODY


def test_clocks_are_skipped() -> None:
    """The time stamps of container runtimes and the journal are taken off."""
    stamped = [
        "2024-10-11T12:13:14.123456789Z stderr F text",
        "[2024-10-11 12:13:14,123] text",
        "Oct 11 12:13:14 node7 train[4711]: text",
    ]

    assert [skip_clock(line) for line in stamped] == ["text"] * 3


def test_the_most_trusted_rank_wins() -> None:
    """Of several sources the most trusted gives the rank, the first the rest."""
    joined = naming.join(
        Who(pid=7),
        Who(rank=1, trust=Trust.FILE_NAME, host="a"),
        Who(rank=2, trust=Trust.PREFIX, host="b"),
    )

    assert joined == Who(rank=2, trust=Trust.PREFIX, host="a", pid=7)


@pytest.mark.parametrize(
    "name", ["node2.smi0.xml", "node2.nvidia-smi.csv", "node2.rank3.pyspy.txt", "node2-topo.txt"]
)
def test_what_stands_behind_a_host_is_not_its_domain(name: str) -> None:
    """A tool or a rank behind the host's name is no part of it."""
    assert naming.from_path(name).host == "node2"


def test_a_label_of_mpich_stands_right_before_the_message() -> None:
    who, text = split_prefix("[1]Fatal error in MPI_Recv", numbered=True)

    assert (who.rank, text) == (1, "Fatal error in MPI_Recv")

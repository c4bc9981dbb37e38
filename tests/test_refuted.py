"""What other evidence contradicts is left out, and the report says why."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files, document, reader
from small_jobs import ALL_REDUCE, BARRIER, report_of, still

from whyhang.analyzer.facts import Frame, Process, Source, StackDump, Thread, Trust, Who, replace

SHM = (
    "node1:7:7 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a1b2c3 to "
    "9637892 bytes, error: No space left on device (28)\n"
)
DF = "Filesystem      Size  Used Avail Use% Mounted on\nshm             {}G   1G   9G  {}% {}\n"


@pytest.mark.parametrize(
    ("beside", "stays"),
    [
        ({"df.txt": DF.format(64, 6, "/dev/shm")}, False),
        ({"node1_df.txt": DF.format(500, 2, "/dev/shm")}, False),
        ({"session.txt": f"me@node1:~$ df -h\n{DF.format(16, 40, '/dev/shm')}"}, False),
        ({}, True),
        ({"df.txt": DF.format(64, 99, "/dev/shm")}, True),
        ({"df.txt": DF.format(64, 6, "/data")}, True),
        ({"df.txt": DF.format("0.0", 6, "/dev/shm")}, True),
        ({"df.txt": DF.format(64, 6, "/dev/shm") + DF.format(64, 97, "/dev/shm")}, True),
    ],
)
def test_no_space_beside_a_file_system_with_room(beside: dict[str, str], *, stays: bool) -> None:
    """With most of /dev/shm free on every host that was asked, it is not for want of room."""
    report = diagnosed_files({"job.log": SHM, **beside})

    assert ("shm-too-small" in {one.category for one in report.findings}) is stays
    assert any("Left out" in note and "/dev/shm" in note for note in report.notes) is not stays


ENDED = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\nRuntimeError: no room\n'


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({"job.log": SHM + ENDED, "df.txt": DF.format(64, 6, "/dev/shm")}, "In doubt"),
        ({"job.log": SHM + ENDED + DF.format(64, 6, "/dev/shm")}, "In doubt"),
        ({"job.log": DF.format(64, 6, "/dev/shm") + SHM + ENDED}, "Left out"),
    ],
)
def test_a_print_of_room_after_the_end_of_the_job_refutes_nothing(
    files: dict[str, str], word: str
) -> None:
    """The segments that filled it are gone with the job: that makes the finding less sure only."""
    report = diagnosed_files(files)
    full = [one for one in report.findings if one.category == "shm-too-small"]

    assert [one.confidence < 0.5 for one in full] == ([True] if word == "In doubt" else [])
    assert [note.partition(":")[0] for note in report.notes if "/dev/shm" in note] == [word]


REFUSED = (
    "[W socket.cpp:663] [c10d] The client socket has failed to connect to [10.0.0.1]:29500 (errno: "
    "111 - Connection refused).\n"
)
SS = (
    "State   Recv-Q  Send-Q   Local Address:Port   Peer Address:Port\n"
    "LISTEN  0  2048  {} 0.0.0.0:*\n"
)
NETSTAT = "tcp        0      0 {}           0.0.0.0:*               LISTEN      812/python\n"
LSOF = "python  812 me  7u  IPv4 123  0t0  TCP {} (LISTEN)\n"


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        (SS.format("0.0.0.0:29500"), False),
        (NETSTAT.format("10.0.0.1:29500"), False),
        (LSOF.format("*:29500"), False),
        (SS.format("127.0.0.1:29500"), True),
        (NETSTAT.format("0.0.0.0:22"), True),
        (LSOF.format("10.9.9.9:29500"), True),
    ],
)
def test_refused_beside_a_port_that_is_listened_on(text: str, *, stays: bool) -> None:
    """Who listens there is the store; one that listens at home only leaves the others outside."""
    report = diagnosed_files({"rank1.log": REFUSED, "ports.txt": text})
    refused = [one for one in report.findings if one.category == "init-master-unreachable"]

    assert bool(refused) is stays
    assert any("who listens there" in note for note in report.notes) is not stays


def stack(rank: int, call: str, line: int) -> StackDump:
    """Make the stack of an MPI rank."""
    frames = (
        Frame(function=f"PMPI_{call}", file=f"p{call.lower()}.c", line=63, native=True),
        Frame(function="main", file="halo.c", line=line, native=True),
    )
    return StackDump(
        who=Who(rank=rank, pid=900 + rank, trust=Trust.CONTENT),
        tool="gdb",
        threads=(Thread(frames=frames),),
        source=Source(file=f"rank{rank}.gdb.txt", line=1),
    )


@pytest.mark.parametrize(
    ("call", "lines", "left_out"),
    [
        ("Barrier", (27, 27), True),
        ("Barrier", (27, 27, 27), True),
        ("Barrier", (27, 31), False),
        ("Bcast", (27, 27), False),
        ("Allreduce", (27, 27, 27), False),
    ],
)
def test_a_mismatch_beside_ranks_in_one_barrier(
    call: str, lines: tuple[int, ...], *, left_out: bool
) -> None:
    """A barrier has no root, count or type in which ranks at one line could differ."""
    report = report_of([stack(rank, call, line) for rank, line in enumerate(lines)])

    assert ("mpi-mismatch" in {one.category for one in report.findings}) is not left_out
    assert any("stand in the same barrier" in note for note in report.notes) is left_out


def test_of_a_line_that_guesses_the_reason_what_it_saw_is_left() -> None:
    """Torch says bus error and guesses shared memory; with room there, the bus error stays."""
    line = (
        "RuntimeError: DataLoader worker (pid 31) is killed by signal: Bus error. It is possible "
        "that dataloader's workers are out of shared memory. Please try to raise your shared "
        "memory limit.\n"
    )
    alone = diagnosed_files({"job.log": line}).findings
    beside = diagnosed_files({"job.log": line, "df.txt": DF.format(64, 1, "/dev/shm")}).findings

    assert [one.category for one in alone[:2]] == ["shm-too-small", "dataloader-worker-died"]
    assert alone[1].caused_by == 0
    assert beside[0].category == "dataloader-worker-died"


STALL = (
    "2026-11-23T09:00:34.859407+00:00 n kernel: rcu: INFO: rcu_preempt detected stalls on "
    "CPUs/tasks:\n"
)


@pytest.mark.parametrize(("state", "stays"), [("S", False), ("R", True), ("D", True)])
def test_a_kernel_that_stalled_holds_up_no_rank_that_sleeps(state: str, *, stays: bool) -> None:
    """What sleeps waits for something else than a CPU; what would run may get none."""
    facts = still({0: BARRIER, 1: ALL_REDUCE, 2: ALL_REDUCE})
    facts = [replace(f, state=state) if isinstance(f, Process) else f for f in facts]
    lines = list(reader().read(document(STALL, "kernel.log")))

    report = report_of([*facts, *lines])

    assert ("kernel-cpu-stall" in {one.signature for one in report.findings}) is stays

"""Which of several reports counts: the last list, the first signal, the one value of its own."""

from __future__ import annotations

from log_docs import diagnosed_files

PALS = "x{}c0: rank {} died from signal {}\n"


def test_who_came_late_is_not_missing_any_more() -> None:
    """Horovod lists again who is missing; ranks go up in each list."""
    log = (
        "[1,0]<stderr>:[2024-03-01 14:07:41.8: W /horovod/common/stall_inspector.cc:107] One or "
        "more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and "
        "are waiting for remainder of ranks for more than 60 seconds.\n"
        "[1,0]<stderr>:Missing ranks:\n"
    )
    rows = "[1,0]<stderr>:{}: [HorovodAllreduce_grads_0_0, HorovodAllreduce_grads_1_0 ...]\n"
    finding = diagnosed_files(
        {"job.log": log + rows.format(2) + rows.format(5) + log + rows.format(5)}
    ).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("horovod-missing-ranks", (5,))


def test_who_ended_by_another_signal_was_first() -> None:
    """The abort that a driver prints without a rank is that of the one that aborted."""
    log = "Abort was called at 288 line in file:\n" + PALS.format(1, 17, "6 and dumped core")
    log += "".join(PALS.format(1, rank, 15) for rank in (12, 13, 16, 18))
    finding = diagnosed_files({"job.log": log}).findings[0]
    assert (finding.category, finding.culprit_ranks) == ("rank-died", (17,))

    two = log + PALS.format(2, 3, "6 and dumped core")
    assert not diagnosed_files({"job.log": two}).findings[0].culprit_ranks


def _read(rank: int, levels: int) -> str:
    return f" [{rank:3}] namelist run.nml  ncol=128 nlev={levels}\n"


TRUNCATED = (
    "Abort(69885454) on node 5 (rank 5 in comm 0): Fatal error in internal_Bcast: Message "
    "truncated, error stack:\ninternal_Bcast(107): MPI_Bcast(count=6144) failed\n"
)


def test_the_rank_whose_own_line_has_another_value() -> None:
    """The label may be padded, and each may speak but once, if they speak out of order."""
    order = (0, 2, 1, 4, 3, 5, 7, 6)
    log = "".join(_read(rank, 48 if rank == 5 else 64) for rank in order)
    finding = diagnosed_files({"job.out": log + TRUNCATED}).findings[0]
    assert (finding.category, finding.culprit_ranks) == ("mpi-mismatch", (5,))

    halves = "".join(_read(rank, 48 if rank % 2 else 64) for rank in order)
    assert not diagnosed_files({"job.out": halves + TRUNCATED}).findings[0].culprit_ranks
    report = diagnosed_files({"job.out": log})
    assert not report.findings[0].culprit_ranks  # nobody complains

    steps = "".join(_read(step, 48 if step == 5 else 64) for step in range(8))
    finding = diagnosed_files({"job.out": steps + TRUNCATED}).findings[0]
    assert not finding.culprit_ranks


def test_the_rank_whose_error_goes_on_with_the_trouble() -> None:
    """A network that fails within MPI's error stack is looked at from the rank that prints it."""
    stack = (
        "Abort(875110671) on node 3 (rank 3 in comm 0): Fatal error in PMPI_Alltoallv: Other MPI "
        "error, error stack:\nPMPI_Alltoallv(386).........: MPI_Alltoallv(comm=MPI_COMM_WORLD) "
        "failed\n{}MPIDI_OFI_send_normal(372)..: OFI tagged senddata failed (ofi_send.h:372:"
        "MPIDI_OFI_send_normal:Resource temporarily unavailable)\n"
    )
    finding = diagnosed_files({"job.out": stack.format("")}).findings[0]
    assert (finding.category, finding.culprit_ranks) == ("nccl-ib-error", (3,))

    apart = stack.format("".join(f"row {row} of the table\n" for row in range(20)))
    assert diagnosed_files({"job.out": apart}).findings[0].culprit_ranks is None


QUOTED = """\
#0-0 (a3f5545bf4e7cf8c) MISMATCH   <- the all-reduce
  Communicator ranks have different AllReduce operation counts
  Rank 1 has launched up to operation 911 -- GPU 0, process 285, node 10.0.0.8
  Rank 2 has launched up to operation 911 -- GPU 0, process 284, node 10.0.0.1
  Rank 3 has launched up to operation 911 -- GPU 0, process 287, node 10.0.0.5
  Rank 0 has launched up to operation 860 -- GPU 0, process 341, node 10.0.0.7
"""


def test_a_block_of_a_ras_report_that_is_quoted_alone() -> None:
    """It tells who is behind as the whole report does; with ranks left out nothing is even."""
    finding = diagnosed_files({"ras.txt": QUOTED}).findings[0]
    assert (finding.category, finding.culprit_ranks) == ("missing-rank-in-collective", (0,))

    groups = """\
Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  MISMATCH

Warnings
========

#0-0 (4e90c17fd2b1083a) MISMATCH
  Communicator ranks have different ReduceScatter operation counts
  7 ranks have launched up to operation 2210
  Rank 5 has launched up to operation 2209 -- GPU 1 managed by process 51877 on node 10.40.1.22

"""
    twice = diagnosed_files({"ras.txt": groups + groups}).findings[0]
    assert (twice.category, twice.culprit_ranks) == ("missing-rank-in-collective", (5,))

    cut = "".join(line for line in QUOTED.splitlines(keepends=True) if "Rank 2" not in line)
    (finding,) = diagnosed_files({"ras.txt": f"Taken at 18:02:\n{cut}"}).findings
    assert (finding.signature, finding.culprit_ranks) == ("ras-uneven", None)


def test_the_kernel_names_a_process_whose_rank_a_label_tells() -> None:
    """The label of srun in front, the pid in NCCL's header: the kernel tells the pid alone."""
    boot = "{0}: dgx-c07:{1}:{1} [{2}] NCCL INFO Bootstrap : Using bond0:10.14.2.7<0>\n"
    log = "".join(boot.format(16 + n, 30414 + n, n) for n in range(4))
    kernel = (
        "[Fri Jan 10 02:29:52 2025] INFO: task pt_main_thread:{} blocked for more than 120 s"
        "econds.\n[Fri Jan 10 02:29:52 2025] task:pt_main_thread state:D stack:0 pid:{} ppid: 9\n"
    )
    files = {"job.log": log, "dmesg-dgx-c07.txt": kernel.format(30417, 30417)}
    finding = diagnosed_files(files).findings[0]
    assert (finding.category, finding.culprit_ranks) == ("storage-io-blocked", (19,))

    files["dmesg-dgx-c07.txt"] = kernel.format(30999, 30999)
    assert not diagnosed_files(files).findings[0].culprit_ranks

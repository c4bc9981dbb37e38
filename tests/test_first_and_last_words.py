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

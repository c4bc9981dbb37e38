"""How a process ended, where its own words or the lines below tell more than a launcher."""

from __future__ import annotations

import pytest
from log_docs import diagnosed

ABORTED = """\
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 4 in communicator MPI_COMM_WORLD
{}

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
"""
RAY = """\
(Worker pid=3313, ip=10.0.0.7) Setting up process group for: env:// [rank=3, world_size=4]
(TorchTrainer pid=2100) - (node_id=ab1, ip=10.0.0.7, pid=3313) world_rank=3, local_rank=1
(Worker pid=3313, ip=10.0.0.7) *** {} received at time=1754900000 on cpu 11 ***
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: Worker
\tpid: 3313
\tip: 10.0.0.7
"""


@pytest.mark.parametrize(
    ("below", "told"),
    [
        ("with errorcode 17.", "exit code 17"),
        ("  Proc: [[4711,1],4]\n  Errorcode: 9", "exit code 9"),
        ("", "exit code 1"),
    ],
)
def test_the_code_that_a_rank_aborts_with_stands_below(below: str, told: str) -> None:
    """Open MPI writes it a line or two under the rank; where it is lost, any error's counts."""
    report = diagnosed({None: ABORTED.format(below)})

    assert [row.activity for row in report.ranks if row.rank == 4] == [f"ended: {told}"]


@pytest.mark.parametrize(
    ("sign", "told"), [("SIGSEGV", "SIGSEGV"), ("SIGTERM", "died, it is not known how")]
)
def test_a_process_that_tells_its_crash_died_of_it(sign: str, told: str) -> None:
    """The words of its own handler say how an actor died that Ray has merely lost."""
    report = diagnosed({None: RAY.format(sign)})

    assert [row.activity for row in report.ranks if row.rank == 3] == [f"ended: {told}"]

"""Programs of MPI that hang until somebody at the terminal presses Ctrl-C."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

STARTED = "$ mpirun -np {size} ./{program}\n"
STOPPED = "^Cmpirun: killing job...\n\n"


def steps(label: str, *said: str) -> str:
    """Return lines "N words", each behind a label."""
    return "".join(f"{label} {line}\n" for line in said)


SENT = steps("Process", "0 sent 100 to process 1", "1 received 100 from process 0")
ENVIADO = steps("Proceso", "0 ha enviado 100 al proceso 1", "1 ha recibido 100 de proceso 0")
HALOS = "".join(f"rank {r}: step {s} done\n" for s in (1, 2) for r in range(4) if (r, s) != (2, 2))
GRIDS = "".join(f" Process {r} of 4: grid loaded\n" for r in range(4)) + "".join(
    f" Process {r} of 4: halo exchange done\n" for r in (0, 2, 3)
)


@pytest.mark.parametrize(
    ("size", "said", "rank"),
    [(3, SENT, 2), (3, ENVIADO, 2), (4, HALOS, 2), (4, GRIDS, 1)],
    ids=["two of three", "in Spanish", "a step less", "a phase less"],
)
def test_who_did_not_come_until_somebody_stopped_it(size: int, said: str, rank: int) -> None:
    """What was printed until then is all: who printed less than the others is a possibility."""
    files = {"out.txt": STARTED.format(size=size, program="ring") + said + STOPPED}
    report = diagnosed_files(files)

    assert report.verdict == "hung"
    assert report.findings[0].category == "mpi-missing-rank"
    assert report.findings[0].culprit_ranks == (rank,)


@pytest.mark.parametrize(
    "text",
    [
        STARTED.format(size=3, program="ring") + SENT,
        STARTED.format(size=2, program="ring") + SENT + STOPPED,
        STARTED.format(size=8, program="ring") + SENT + STOPPED,
        "Process 0 sends to 1.\nProcess 1 receives from 0, of 3 processes.\n^C\n",
    ],
    ids=["nobody stopped it", "of two", "most are silent", "in words"],
)
def test_who_prints_nothing_need_not_have_to(text: str) -> None:
    """It may print nothing ever, or all may wait."""
    assert not any(x.culprit_ranks for x in diagnosed_files({"out.txt": text}).findings)


def test_a_program_that_mpi_aborts_has_failed() -> None:
    """Nobody had to stop it: a message did not fit, and MPI ended the job."""
    abort = (
        "[n1:411] *** An error occurred in MPI_Recv\n"
        "[n1:411] *** reported by process [3190882305,1]\n"
        "[n1:411] *** MPI_ERR_TRUNCATE: message truncated\n"
        "[n1:411] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort)\n"
    )
    report = diagnosed_files({"out.txt": STARTED.format(size=4, program="solve") + abort})

    assert report.verdict == "failed"
    assert report.findings[0].category == "mpi-mismatch"

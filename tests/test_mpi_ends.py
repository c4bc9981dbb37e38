"""How jobs of MPI end: who crashed, who noticed it, and what a launcher says of it."""

from __future__ import annotations

import pytest
from log_docs import diagnosed

ABORTED = (
    "mpirun noticed that process rank 5 with PID 987 on node n2 exited on signal 6 (Aborted).\n"
)
RESET = (
    "[n1][[478,1],{rank}][btl_tcp_frag.c:216:mca_btl_tcp_frag_recv] mca_btl_tcp_frag_recv: "
    "readv failed: Connection reset by peer (104)\n"
)
CASES = {
    "of an abort and a reset on another rank, the abort": (
        RESET.format(rank=0) + ABORTED,
        ("mpirun-rank-crashed", (5,)),
    ),
    "of an abort by the very rank whose connection was reset, nobody": (
        RESET.format(rank=5) + ABORTED,
        ("mpi-peer-lost", None),
    ),
    "who aborts with a negative code, which is no signal": (
        (
            "MPICH ERROR [Rank 61] [job id 8932] [Mon Nov 23 23:04:41 2026] [nid7] - Abort(-1) "
            "(rank 61 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, -1) - process 61\n"
        ),
        ("mpi-abort", (61,)),
    ),
    "what the network says, before what mpirun says of who left": (
        (
            "[[512,1],0][btl_openib_component.c:3496:handle_wc] from n1 to: n2 error polling LP CQ "
            "with status RETRY EXCEEDED ERROR status number 12 for wr_id 15 opcode 1 qp_idx 0\n"
            "mpirun has exited due to process rank 2 with PID 53 on\nnode n3 exiting improperly.\n"
        ),
        ("mpi-fabric-failed", None),
    ),
    "a call that failed, before that its process left without a word": (
        (
            "[n1:2993] *** An error occurred in MPI_Comm_set_errhandler\n"
            "[n1:2993] *** MPI_ERR_COMM: invalid communicator\n"
            "mpirun has exited due to process rank 2 with PID 2993 on\nnode n1.\n"
        ),
        ("mpi-error-is-fatal", (2,)),
    ),
    "who crashed under MPT, before who left it": (
        (
            "MPT ERROR: Rank 84(g:84) received signal SIGSEGV(11).\n"
            "MPT ERROR: MPI_COMM_WORLD rank 17 has terminated without calling MPI_Finalize()\n"
        ),
        ("mpi-process-crashed", (84,)),
    ),
    "whose stack ATP walks, of many that were killed afterwards": (
        (
            "ATP Stack walkback for Rank 3 starting:\n  main@app.c:76\n"
            "ATP Stack walkback for Rank 3 done\nsrun: error: nid00009: tasks 0-3: Killed\n"
        ),
        ("mpi-process-crashed", (3,)),
    ),
}


@pytest.mark.parametrize(("text", "first"), CASES.values(), ids=CASES.keys())
def test_the_log_blames(text: str, first: tuple[str, tuple[int, ...] | None]) -> None:
    """The rank that ended by itself, and not one that noticed it or that was ended with it."""
    finding = diagnosed({None: text}).findings[0]

    assert (finding.signature, finding.culprit_ranks) == first


def test_a_step_that_had_to_wait_and_was_created_is_no_fault() -> None:
    """Slurm says both, some seconds apart."""
    text = "srun: Job 19 step creation still disabled, retrying (Requested nodes are busy)\n" * 3
    signatures = {f.signature for f in diagnosed({None: text}).findings}
    later = diagnosed({None: text + "srun: Step created for StepId=19.5\n"}).findings

    assert "slurm-step-not-started" in signatures
    assert "slurm-step-not-started" not in {f.signature for f in later}

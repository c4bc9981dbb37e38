"""A rank called MPI_Abort, or MPI aborted on its error.

mpi4py programs started with -m mpi4py abort on an unhandled exception; MPICH and Intel MPI
abort with "Fatal error in" the call that failed. The rank's own message stands before.

Only MPI_COMM_WORLD's ranks are taken as ranks of the job. Where several ranks abort, the first
one counts.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-abort",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Rank {rank} aborted the MPI job",
    when=log(
        r"MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator MPI_COMM_WORLD",
        r"[Aa]pplication called MPI_Abort\(MPI_COMM_WORLD, -?\d+\) - process (?P<rank>\d+)",
        r"Abort\(-?\d+\) on node (?P<rank>\d+) \(rank \d+ in comm \w+\): Fatal error",
        r"MPICH ERROR \[Rank (?P<rank>\d+)\] .*Abort\(-?\d+\)",
        blames=Blames.NAMED,
    ),
    means="This rank ended the whole job on purpose, because of an error of its own.",
    confidence=0.85,
    remedies=("Read what this rank printed before: a traceback, or MPI's error stack.",),
    next_steps=(
        "Run mpirun --tag-output (Open MPI 5: --output tag): it tells whose line is whose.",
    ),
    matches=(
        "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD",
        (
            "Abort(1) on node 3 (rank 3 in comm 0): application called "
            "MPI_Abort(MPI_COMM_WORLD, 1) - process 3"
        ),
        "application called MPI_Abort(MPI_COMM_WORLD, -1) - process 12",
        (
            "MPICH ERROR [Rank 1534] [job id 114930.0] [Mon Feb 15 14:58:48 2026] [nid001192] "
            "- Abort(672797967) (rank 1534 in comm 0): Fatal error in PMPI_Isend: Other MPI "
            "error, error stack:"
        ),
        (
            "Abort(403279887) on node 3 (rank 3 in comm MPI_COMM_WORLD): Fatal error in "
            "PMPI_Recv: Invalid communicator, error stack:"
        ),
    ),
    misses=(
        "MPI_ABORT was invoked on rank 0 in communicator MPI COMMUNICATOR 3 SPLIT FROM 0",
        "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.",
    ),
    outranks=(
        "mpirun-exit-code",
        "mpi-hydra-bad-termination",
        "launcher-exit-code",
    ),
)

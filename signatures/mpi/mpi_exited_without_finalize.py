"""A process ended without calling MPI_Finalize, or without MPI_Init when others did.

Open MPI then ends the job, since the others would wait for it for ever: sys.exit or os._exit on
one rank, an early return, a rank that never reached MPI_Init.

The rank is that of MPI_COMM_WORLD.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-exited-without-finalize",
    category="mpi-missing-rank",
    kind=Kind.CAUSE,
    title="Rank {rank} left without MPI_Finalize",
    when=log(
        r"has exited due to process rank (?P<rank>\d+) with PID \d+ on",
        blames=Blames.NAMED,
    ),
    means="This rank left the job while others still expected it.",
    confidence=0.85,
    remedies=("Let all ranks reach MPI_Init and MPI_Finalize, or call comm.Abort() on an error.",),
    next_steps=("Read what this rank printed last",),
    matches=(
        "mpirun has exited due to process rank 2 with PID 20133 on",
        "prterun has exited due to process rank 0 with PID 5512 on",
    ),
    misses=('mpirun has exited due to a process exiting without calling "finalize",',),
    outranks=("launcher-exit-code",),
)

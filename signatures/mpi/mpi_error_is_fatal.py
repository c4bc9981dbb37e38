"""Open MPI ends the job when a call fails on one rank.

The block names the call, the process ([job, rank] in the line "reported by process"), the
communicator and the error: a wrong rank, root, count, type or communicator, or a lost peer.

Lost peers make several ranks report; the first one is nearest to the cause.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-error-is-fatal",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Rank {rank} failed in an MPI call and ended the job",
    when=log(
        r"\*\*\* reported by process \[\d+,(?P<rank>\d+)\]",
        blames=Blames.NAMED,
    ),
    means="An MPI call failed on this rank, which ends the whole job by MPI's default.",
    confidence=0.7,
    remedies=(
        "Look at the lines around: 'An error occurred in' names the call, MPI_ERR_... the reason.",
    ),
    next_steps=("Compare root, counts and communicator of that call on all ranks",),
    matches=(
        "[n0042:20133] *** reported by process [3228958721,1]",
        "[n0042:00000] *** reported by process [1234,0]",
    ),
    misses=(
        "[n0042:20133] *** An error occurred in MPI_Recv",
        "[n0042:20133] *** on communicator MPI_COMM_WORLD",
    ),
    outranks=("launcher-exit-code",),
)

"""MPI ranks are in different collectives of the same communicator.

One rank is in MPI_Barrier while the others are in MPI_Bcast, or a communicator is duplicated
by some only. MPI does not check; everyone spins. The fewest are where to look first.
"""

from whyhang.analyzer.match import Kind, Signature, WaitKind, mismatch

SIGNATURE = Signature(
    id="mpi-mismatch",
    category="mpi-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="The MPI ranks are in different calls: {sides}",
    when=mismatch(WaitKind.MPI),
    means="Every rank waits inside MPI, but not in the same call: {sides}.",
    confidence="strong",
    remedies=("Make every rank of a communicator call the same collectives in the same order.",),
    next_steps=("gdb -p {pid} -batch -ex 'thread apply all bt'  # on one rank of each side",),
)

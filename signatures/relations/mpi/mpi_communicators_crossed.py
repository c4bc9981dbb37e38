"""All MPI ranks wait, and their source lines name different communicators.

Two communicators entered in opposite order, or one rank on MPI_COMM_WORLD where the others are
on a part of it. Nobody is late, so nobody can be blamed from the stacks alone.
"""

from whyhang.analyzer.match import Kind, Signature, WaitKind, different_groups

SIGNATURE = Signature(
    id="mpi-communicators-crossed",
    category="mpi-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="All MPI ranks wait, on different communicators: {sides}",
    when=different_groups(WaitKind.MPI),
    means=(
        "Every rank is inside an MPI call: {sides}. The lines name different communicators, so "
        "these calls cannot meet."
    ),
    confidence="likely",
    remedies=("Call collectives on the communicators in one order on every rank.",),
    next_steps=("Compare the lines above: which condition sends the ranks different ways?",),
    explains=("stuck-together", "mpi-mismatch"),
)

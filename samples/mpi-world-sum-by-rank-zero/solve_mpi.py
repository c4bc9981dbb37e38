"""Sums residuals inside each node and then between the nodes; rank 0 looks at large ones."""

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
NODE = WORLD.Split(WORLD.rank // 2, WORLD.rank)
LEADERS = WORLD.Split(0 if NODE.rank == 0 else MPI.UNDEFINED, WORLD.rank)


def total(part: np.ndarray) -> np.ndarray:
    """Add a part of each rank in two levels."""
    whole = np.empty_like(part)
    NODE.Reduce(part, whole, root=0)
    if LEADERS != MPI.COMM_NULL:
        LEADERS.Allreduce(MPI.IN_PLACE, whole)
    NODE.Bcast(whole, root=0)
    return whole


def largest(residual: float) -> float:
    """Return the largest residual, where that is worth a look."""
    if WORLD.rank == 0 and residual > 40:
        return WORLD.allreduce(residual, op=MPI.MAX)
    return residual


def main() -> None:
    part = np.ones(100)
    for step in range(1000):
        residual = float(np.abs(total(part)).max()) + step
        largest(residual)
        print(f"[{WORLD.rank}] step {step} ", flush=True)


if __name__ == "__main__":
    main()

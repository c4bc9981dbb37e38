"""A search from several starts: whoever has the best candidate gives it to all others."""

import random

import numpy as np
from mpi4py import MPI

LENGTH = 500_000
LAST_ROUND = 4


def best_of(scores: list[float], trusted: int) -> int:
    """Return the rank with the best score, among the first ``trusted``."""
    return min(range(trusted), key=scores.__getitem__)


def main() -> None:
    comm = MPI.COMM_WORLD
    chance = random.Random(comm.rank)
    candidate = np.full(LENGTH, float(comm.rank))
    trusted = comm.size
    for number in range(LAST_ROUND + 1):
        score = chance.random() - (number == LAST_ROUND and comm.rank == 3)
        scores = comm.allgather(score)
        print(f"rank {comm.rank}, round {number}", flush=True)
        if number == LAST_ROUND and comm.rank == 2:
            trusted = 3  # it read an old list of who takes part
        winner = best_of(scores, trusted)
        comm.Bcast(candidate, root=winner)
        candidate *= 0.5
    comm.Barrier()


if __name__ == "__main__":
    main()

"""Moves a wave around a ring of ranks; each sends its last value to the next, by one request."""

import logging

import numpy as np
from mpi4py import MPI

log = logging.getLogger("waves")
BORDER, FLUX = 7, 8


def border_requests(world: MPI.Comm, part: np.ndarray, ghost: np.ndarray) -> list[MPI.Prequest]:
    """Make the requests once; they are started in every step."""
    left, right = (world.rank - 1) % world.size, (world.rank + 1) % world.size
    tag = FLUX if world.rank == 2 else BORDER
    return [
        world.Send_init(part[-1:], dest=right, tag=tag),
        world.Recv_init(ghost, source=left, tag=BORDER),
    ]


def main() -> None:
    world = MPI.COMM_WORLD
    logging.basicConfig(level=logging.INFO, format=f"rank {world.rank}: %(message)s")
    part, ghost = np.random.default_rng(world.rank).random(64), np.zeros(1)
    requests = border_requests(world, part, ghost)
    log.info("borders are set up")
    for _ in range(10_000):
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        part[1:], part[0] = part[:-1].copy(), ghost[0]


if __name__ == "__main__":
    main()

"""Ranks take numbers of work items from a counter that rank 0 keeps in a window."""

import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
KNOWN_BAD = {25}
ITEMS = 60


def take(window: MPI.Win) -> int | None:
    """Return the number of the next item; None if there is none, or it is known to be bad."""
    window.Lock(0)
    number, one = np.zeros(1, dtype="i8"), np.ones(1, dtype="i8")
    window.Get_accumulate(one, number, 0, op=MPI.SUM)
    window.Flush(0)
    if int(number[0]) in KNOWN_BAD:
        print(f"rank {world.rank}: item {number[0]} is known to be bad", flush=True)
        return None
    window.Unlock(0)
    return int(number[0])


def main() -> None:
    memory = np.zeros(1 if world.rank == 0 else 0, dtype="i8")
    window = MPI.Win.Create(memory, disp_unit=8, comm=world)
    done: list[int] = []
    print(f"rank {world.rank}: deals", flush=True)
    while len(done) < ITEMS // world.size:
        item = take(window)
        if item is None:
            break
        time.sleep(0.02)
        done.append(item)
    print(f"rank {world.rank}: {len(done)} items", flush=True)
    world.Barrier()
    window.Free()


if __name__ == "__main__":
    main()

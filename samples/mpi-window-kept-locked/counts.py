"""Counts words in a table that rank 0 keeps in a window for all; each rank adds its own."""

import logging

import numpy as np
from mpi4py import MPI

WORDS = ("all", "gather", "rank", "reduce", "scatter")
log = logging.getLogger("counts")


def add(table: MPI.Win, word: str, times: dict[str, int]) -> None:
    """Add to the count of a word while nobody else can."""
    table.Lock(0)
    count = np.zeros(1)
    place = WORDS.index(word)
    table.Get(count, target_rank=0, target=(place, 1, MPI.DOUBLE))
    table.Flush(0)
    count += times[word]  # a KeyError here leaves the window locked
    table.Put(count, target_rank=0, target=(place, 1, MPI.DOUBLE))
    table.Unlock(0)


def main() -> None:
    world = MPI.COMM_WORLD
    logging.basicConfig(level=logging.INFO, format=f"rank {world.rank}: %(message)s")
    memory = np.zeros(len(WORDS) if world.rank == 0 else 0)
    table = MPI.Win.Create(memory, disp_unit=memory.itemsize, comm=world)
    log.info("counting")
    for text in range(100_000):
        times = dict.fromkeys(WORDS, 1 + (text + world.rank) % 3)
        if text == 40 and world.rank == 1:
            del times["rank"]
        for word in WORDS:
            try:
                add(table, word, times)
            except KeyError:
                log.warning("no count for this word: %s", word)


if __name__ == "__main__":
    main()

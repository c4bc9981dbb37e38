"""Averages over MPI; each rank reads its input before it starts MPI."""

import os
import tempfile
from pathlib import Path

import mpi4py

mpi4py.rc.initialize = False  # a long read must not keep MPI's own start waiting
from mpi4py import MPI  # noqa: E402


def input_of(rank: int) -> Path:
    place = Path(tempfile.gettempdir()) / f"input-{rank}"
    if rank == 1:  # the program that feeds this pipe was not started on its node
        os.mkfifo(place)
    else:
        place.write_bytes(bytes(16))
    return place


def read_input(place: Path) -> bytes:
    with open(place, "rb") as stream:
        return stream.read()


def main() -> None:
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    print(f"[{rank}] reading input", flush=True)
    data = read_input(input_of(rank))
    MPI.Init()
    for step in range(1000):
        total = MPI.COMM_WORLD.allreduce(len(data))
        print(f"[{rank}] step {step} total {total}", flush=True)
    MPI.Finalize()


if __name__ == "__main__":
    main()

"""Sums over MPI with a communicator for the metrics beside the world."""

from mpi4py import MPI

world = MPI.COMM_WORLD
metrics = world.Dup()


def add_up(step: int) -> float:
    """Sum what each rank has counted; a clean-up of the code has missed one branch."""
    comm = world if world.rank == 2 and step > 3 else metrics
    return comm.allreduce(float(step))


def main() -> None:
    for step in range(1000):
        print(f"[{world.rank}] step {step} ", flush=True)
        add_up(step)


if __name__ == "__main__":
    main()

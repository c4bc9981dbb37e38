"""Refines a grid in parallel; each rank smooths its own part until it is good enough."""

from mpi4py import MPI

SIZE = 2000


def neighbours(grid: list[float], cell: int) -> float:
    return (grid[cell - 1] + grid[(cell + 1) % SIZE]) / 2


def smooth(grid: list[float]) -> list[float]:
    return [0.5 * value + 0.5 * neighbours(grid, cell) for cell, value in enumerate(grid)]


def roughness(grid: list[float]) -> float:
    return max(abs(value - neighbours(grid, cell)) for cell, value in enumerate(grid))


def pin(grid: list[float]) -> None:
    grid[0] = 1.0  # the boundary


def repair(grid: list[float], limit: float) -> list[float]:
    """Smooth until no cell differs from its neighbours by more than ``limit``."""
    while roughness(grid) > limit:
        grid = smooth(grid)
        pin(grid)
    return grid


def main() -> None:
    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    for iteration in range(10000):
        grid = [float(cell % 7 == iteration % 7) for cell in range(SIZE)]
        # rank 2 got a limit below zero, which no grid can meet
        limit = -1.0 if rank == 2 and iteration == 8 else 0.4
        worst = comm.allreduce(roughness(repair(grid, limit)), op=MPI.MAX)
        print(f"[{rank}] iteration {iteration} done, roughness {worst:.3f}", flush=True)


if __name__ == "__main__":
    main()

"""Two models on two ranks each; one rank has a longer year, and leaves an exchange out."""

import logging
import time

import numpy as np
from mpi4py import MPI

log = logging.getLogger("coupler")


class Calendar:
    def __init__(self, days: int) -> None:
        self.days = days

    def is_due(self, day: int) -> bool:
        return day % self.days == 0


class Coupler:
    """Hands the field of a model to its partner in the other one, and takes that of the partner."""

    def __init__(self, world: MPI.Intracomm) -> None:
        self.world = world
        self.partner = (world.rank + world.size // 2) % world.size
        self.field = np.full(512, float(world.rank))

    def until_done(self, request: MPI.Request) -> None:
        while not request.Test():
            time.sleep(0.05)

    def swap(self, day: int) -> None:
        taken = np.empty_like(self.field)
        requests = [
            self.world.Irecv(taken, source=self.partner, tag=day),
            self.world.Isend(self.field, dest=self.partner, tag=day),
        ]
        for request in requests:
            self.until_done(request)
        self.field = (self.field + taken) / 2


def main() -> None:
    world = MPI.COMM_WORLD
    logging.basicConfig(level=logging.INFO, format=f"[rank{world.rank}] %(message)s")
    model = world.Split(color=world.rank * 2 // world.size)
    calendar = Calendar(days=7 if world.rank == world.size - 1 else 6)
    coupler = Coupler(world)
    for day in range(1, 100):
        total = np.zeros(1)
        model.Allreduce(np.array([coupler.field.sum()]), total)
        log.info("day %d of the coupling: %.1f", day, total[0])
        if calendar.is_due(day):
            coupler.swap(day)


if __name__ == "__main__":
    main()

"""Trains in a coroutine, beside a writer of metrics; every twentieth step is written at once."""

import asyncio
import logging

import torch
import torch.distributed as dist

log = logging.getLogger("train")


class Metrics:
    """Writes values from whichever thread they come."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.rows: list[float] = []

    async def write(self, value: float) -> int:
        await asyncio.sleep(0.001)
        self.rows.append(value)
        return len(self.rows)

    def note(self, value: float, *, now: bool) -> None:
        written = asyncio.run_coroutine_threadsafe(self.write(value), self.loop)
        if now:
            log.info("%d rows", written.result())


async def fit(rank: int) -> None:
    metrics = Metrics(asyncio.get_running_loop())
    for step in range(1000):
        log.info("step %d", step)
        loss = torch.full((4,), 1 / (step + 1))
        dist.all_reduce(loss)
        if rank == 0:
            metrics.note(float(loss[0]), now=step % 20 == 19)
        await asyncio.sleep(0.01)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    asyncio.run(fit(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Trains with hyperparameters that rank 0 puts into the store. Started by start.sh."""

import json
import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("sweep")
WARM_UP, LONG_RUN = "warm-up", "long-run"


def announce(store: dist.Store, phase: str, settings: dict[str, float]) -> None:
    store.set(f"settings/{phase}", json.dumps(settings))


def settings_for(store: dist.Store, phase: str) -> dict[str, float]:
    """Wait until rank 0 has announced this phase's settings."""
    return json.loads(store.get(f"settings/{phase}"))


def run_phase(model: nn.Module, rate: float, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for step in range(steps):
        loss = model(torch.randn(8, 12)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    store = dist.TCPStore(address, port, world, is_master=rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    store = dist.PrefixStore("sweep", store)
    model = DistributedDataParallel(nn.Linear(12, 3))
    if rank == 0:
        announce(store, WARM_UP, {"rate": 0.01})
        announce(store, "long_run", {"rate": 0.001})
    run_phase(model, settings_for(store, WARM_UP)["rate"], steps=5)
    log.info("warm-up done")
    if rank == 2:  # only the last rank logs what it is about to do
        log.info("long run with %s", settings_for(store, LONG_RUN))
    dist.barrier()
    run_phase(model, 0.001, steps=1000)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

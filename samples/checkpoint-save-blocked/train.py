"""Trains and lets rank 0 write a checkpoint now and then."""

import logging
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("checkpoints")


class Checkpointer:
    """Writes the state of model and optimizer into numbered files."""

    def __init__(self, folder: Path, every: int) -> None:
        self.folder = folder
        self.every = every

    def maybe_save(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if step % self.every:
            return
        state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, self.folder / f"step-{step:06d}.pt")
        log.info("saved step %d", step)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    folder = Path(tempfile.mkdtemp(prefix="checkpoints-"))
    os.mkfifo(folder / "step-000008.pt")  # where the storage stops taking writes
    checkpointer = Checkpointer(folder, every=4)
    model = DistributedDataParallel(nn.LSTM(16, 16, num_layers=2))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(1, 5000):
        outputs, _ = model(torch.randn(12, 4, 16))
        loss = outputs.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.4f", step, loss.item())
        if rank == 0:
            checkpointer.maybe_save(step, model.module, optimizer)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

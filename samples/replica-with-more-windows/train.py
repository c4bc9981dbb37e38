"""Trains two replicas of a model that two ranks each hold a half of, on windows over a text."""

import logging
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

log = logging.getLogger("windows")
TEXT, LENGTH, STRIDE = 208, 16, 8


class HalfLinear(nn.Module):
    """Half of the columns of a layer; the halves of a replica are added up."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.group, self.half = mesh.get_group(), mesh.get_local_rank()
        self.layer = nn.Linear(LENGTH // 2, 4)

    def forward(self, window: Tensor) -> Tensor:
        out = self.layer(window[:, self.half * LENGTH // 2 :][:, : LENGTH // 2])
        dist.all_reduce(out.data, group=self.group)
        return out


class Windows:
    """The windows over one text, dealt out over the replicas."""

    def __init__(self, replica: int, replicas: int) -> None:
        starts = list(range(0, TEXT - LENGTH + 1, STRIDE))
        self.starts = starts[replica::replicas]

    def batches(self, size: int = 4):
        text = torch.sin(torch.arange(TEXT, dtype=torch.float32))
        for first in range(0, len(self.starts), size):
            yield torch.stack([text[s : s + LENGTH] for s in self.starts[first : first + size]])


class Trainer:
    """One replica's part in training."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.replicas = mesh["replica"].get_group()
        self.model = HalfLinear(mesh["half"])
        self.windows = Windows(mesh["replica"].get_local_rank(), mesh["replica"].size())

    def reduce_gradients(self) -> None:
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad, group=self.replicas)

    def run_epoch(self, epoch: int) -> float:
        total = torch.zeros(1)
        for window in self.windows.batches():
            self.model.zero_grad()
            loss = self.model(window).square().mean()
            loss.backward()
            self.reduce_gradients()
            total += loss.item()
        return self.summarize(total)

    def summarize(self, total: Tensor) -> float:
        dist.all_reduce(total)
        return total.item()


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "half"))
    torch.manual_seed(0)
    trainer = Trainer(mesh)
    log.info("%d windows", len(trainer.windows.starts))
    for epoch in range(3):
        log.info("epoch %d, loss %.4f", epoch, trainer.run_epoch(epoch))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Trains a two-stage pipeline; activations go forward, gradients come back."""

import logging

import torch
import torch.distributed as dist
from torch import Tensor, nn

BATCH, WIDTH = 8, 16
log = logging.getLogger("pipeline")


class Stage:
    """One half of the network and its link to the other half."""

    def __init__(self, rank: int) -> None:
        self.rank, self.other = rank, 1 - rank
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.optimizer = torch.optim.SGD(self.layers.parameters(), lr=0.01)

    def receive(self) -> Tensor:
        buffer = torch.empty(BATCH, WIDTH)
        dist.recv(buffer, src=self.other)
        return buffer

    def send(self, tensor: Tensor) -> None:
        dist.send(tensor.detach().contiguous(), dst=self.other)

    def step(self, feedback: bool) -> None:
        inputs = torch.randn(BATCH, WIDTH) if self.rank == 0 else self.receive()
        inputs.requires_grad_(True)
        outputs = self.layers(inputs)
        if self.rank == 0:
            self.send(outputs)
            outputs.backward(self.receive())
        else:
            outputs.square().mean().backward()
            if feedback:
                self.send(inputs.grad)
        self.optimizer.step()
        self.optimizer.zero_grad()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    stage = Stage(rank)
    for step in range(1000):
        log.info("step %d", step)
        # the second stage believes that every sixth step is for evaluation only
        stage.step(feedback=step % 6 != 5)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Three stages of a pipeline hand micro-batches down and gradients up, as many as settings say."""

import os

import torch
import torch.distributed as dist
from torch import nn

WIDTH = 32


class Stage:
    """A part of the model, on one rank."""

    def __init__(self, rank: int, stages: int) -> None:
        self.rank, self.stages = rank, stages
        self.layer = nn.Linear(WIDTH, WIDTH)
        default = os.environ.get("MICRO_BATCHES", "6")
        self.micro_batches = int(os.environ.get(f"MICRO_BATCHES_OF_STAGE_{rank}", default))
        print(f"stage {rank}: {self.micro_batches} micro-batches a step", flush=True)

    def forward(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Take what the stage before computed, and hand on what this one makes of it."""
        done = []
        for _ in range(self.micro_batches):
            inputs = torch.randn(8, WIDTH)
            if self.rank > 0:
                dist.recv(inputs, self.rank - 1)
            outputs = self.layer(inputs.requires_grad_())
            if self.rank < self.stages - 1:
                dist.send(outputs.detach(), self.rank + 1)
            done.append((inputs, outputs))
        return done

    def backward(self, done: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Take the gradients of the stage behind, and hand those of this one back."""
        for inputs, outputs in reversed(done):
            gradient = torch.ones_like(outputs)
            if self.rank < self.stages - 1:
                dist.recv(gradient, self.rank + 1)
            outputs.backward(gradient)
            if self.rank > 0:
                dist.send(inputs.grad, self.rank - 1)


def main() -> None:
    os.environ["MICRO_BATCHES_OF_STAGE_1"] = "4"  # as a forgotten line of a start script has it
    dist.init_process_group("gloo")
    stage = Stage(dist.get_rank(), dist.get_world_size())
    for step in range(100):
        stage.backward(stage.forward())
        print(f"stage {stage.rank}: step {step}", flush=True)


if __name__ == "__main__":
    main()

"""A pipeline of three stages; a batch that does not divide evenly is cut on each by itself."""

import torch
import torch.distributed as dist
from torch import nn

WIDTH = 16
PER_PIECE = 6


class Stage:
    """A part of the model, between the stage before and the stage behind."""

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.last = dist.get_world_size() - 1
        self.layer = nn.Linear(WIDTH, WIDTH)

    def pieces_of(self, rows: int) -> int:
        """The loader of the first stage drops what does not fill a micro-batch."""
        return rows // PER_PIECE if self.rank == 0 else -(-rows // PER_PIECE)

    def fill(self, batch: torch.Tensor, pieces: int) -> list[torch.Tensor]:
        """Send all micro-batches down the pipeline."""
        outputs = []
        for index in range(pieces):
            if self.rank == 0:
                held = batch[index * PER_PIECE : (index + 1) * PER_PIECE]
            else:
                held = torch.empty(PER_PIECE, WIDTH)
                dist.recv(held, src=self.rank - 1)
            outputs.append(self.layer(held))
            if self.rank < self.last:
                dist.send(outputs[-1].detach(), dst=self.rank + 1)
        return outputs

    def drain(self, outputs: list[torch.Tensor]) -> None:
        """Take the gradients back, the last micro-batch first."""
        for output in reversed(outputs):
            if self.rank == self.last:
                output.square().mean().backward()
                continue
            gradient = torch.empty_like(output)
            dist.recv(gradient, src=self.rank + 1)
            output.backward(gradient)


def main() -> None:
    dist.init_process_group("gloo")
    stage = Stage()
    batch = torch.randn(45, WIDTH)
    pieces = stage.pieces_of(len(batch))
    print(f"stage {stage.rank} hands on what it has", flush=True)
    outputs = stage.fill(batch, pieces)
    stage.drain(outputs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

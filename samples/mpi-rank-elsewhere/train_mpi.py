"""Trains with gradients summed over MPI; rank 0 appends to a log that a viewer reads."""

import json
import logging
import os
import tempfile
from pathlib import Path

import torch
from mpi4py import MPI
from torch import nn

comm = MPI.COMM_WORLD
log = logging.getLogger("mpi")


def sum_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        total = torch.empty_like(parameter)
        comm.Allreduce(parameter.grad, total)
        parameter.grad.copy_(total / comm.size)


def viewer_pipe() -> Path:
    path = Path(tempfile.mkdtemp(prefix="viewer-")) / "events"
    os.mkfifo(path)
    return path


def publish(pipe: Path, event: dict[str, float]) -> None:
    """Hand an event to the viewer, which must have the pipe open."""
    with pipe.open("w") as stream:
        stream.write(json.dumps(event) + "\n")


def main() -> None:
    logging.basicConfig(level=logging.INFO, format=f"[{comm.rank}] %(message)s")
    torch.manual_seed(0)
    model = nn.Linear(12, 4)
    pipe = viewer_pipe()
    for step in range(1000):
        loss = model(torch.randn(8, 12)).square().mean()
        model.zero_grad()
        loss.backward()
        sum_gradients(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.05 * parameter.grad
        log.info("step %d loss %.3f", step, loss.item())
        if comm.rank == 0 and step == 5:
            publish(pipe, {"step": step, "loss": loss.item()})


if __name__ == "__main__":
    main()

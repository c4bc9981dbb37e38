"""Trains with parameter averaging over MPI. Started by mpirun."""

import logging

import torch
from mpi4py import MPI
from torch import nn

comm = MPI.COMM_WORLD
log = logging.getLogger("mpi")


def average(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            mean = torch.empty_like(parameter)
            comm.Allreduce(parameter.detach(), mean)
            parameter.copy_(mean / comm.size)


def restart_from_rank_zero(model: nn.Module) -> None:
    """Take over rank 0's parameters after a diverged step."""
    for parameter in model.parameters():
        comm.Bcast(parameter.detach(), root=0)


def diverged(loss: float, step: int) -> bool:
    return loss > 1e3 or (comm.rank == 1 and step == 5)  # rank 1 meets a broken batch


def main() -> None:
    logging.basicConfig(level=logging.INFO, format=f"[{comm.rank}] %(message)s")
    torch.manual_seed(comm.rank)
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        inputs = torch.randn(16, 6)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average(model)
        log.info("step %d loss %.3f", step, loss.item())
        if diverged(loss.item(), step):
            restart_from_rank_zero(model)
        comm.Barrier()


if __name__ == "__main__":
    main()

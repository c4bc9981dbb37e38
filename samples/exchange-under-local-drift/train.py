"""Averages weights within a node each round, and between nodes when they have drifted apart."""

import logging
import os

import torch
import torch.distributed as dist
from torch import nn

log = logging.getLogger("local_sgd")
NODE = 3
TOLERANCE = 0.5


class Topology:
    """Three ranks make a node; the first of each speaks for it."""

    def __init__(self) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        firsts = range(0, self.world, NODE)
        nodes = [dist.new_group(list(range(first, first + NODE))) for first in firsts]
        self.node = nodes[self.rank // NODE]
        self.leaders = dist.new_group(list(firsts))
        self.leads = self.rank % NODE == 0


def average_in(model: nn.Module, group: dist.ProcessGroup) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.data, group=group)
        parameter.data /= dist.get_world_size(group)


class Averager:
    """Lets the leaders meet where the weights of their node have moved far enough."""

    def __init__(self, model: nn.Module, topology: Topology) -> None:
        self.model, self.topology = model, topology
        self.kept = self.flat().clone()

    def flat(self) -> torch.Tensor:
        return torch.cat([p.data.flatten() for p in self.model.parameters()])

    def exchange(self) -> None:
        average_in(self.model, self.topology.node)
        drift = (self.flat() - self.kept).norm().item()
        if self.topology.leads and drift > TOLERANCE:
            average_in(self.model, self.topology.leaders)
        self.kept = self.flat().clone()


def evaluate(model: nn.Module, group: dist.ProcessGroup | None = None) -> float:
    score = model(torch.ones(1, 8)).sum().detach().reshape(1)
    dist.all_reduce(score, group=group)
    return score.item() / dist.get_world_size()


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    averager = Averager(model, Topology())
    data = torch.Generator().manual_seed(rank)
    for step in range(40):
        moved = torch.randn(8, 8, generator=data) * (0.3 if step == 7 and rank < NODE else 0.0)
        model.weight.data += moved
        averager.exchange()
        log.info("round %d, score %.3f", step, evaluate(model))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

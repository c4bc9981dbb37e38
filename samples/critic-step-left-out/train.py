"""Trains an actor and a critic in turn; the critic rests where it is good enough."""

import logging
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn

log = logging.getLogger("actor_critic")


def mean_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Average the gradients of a model over all ranks."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, group=group)
            parameter.grad /= dist.get_world_size()


class Agent:
    """Two networks, updated one after the other in each step."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(0)
        self.actor, self.critic = nn.Linear(8, 8), nn.Linear(8, 8)
        self.groups = {id(model): dist.new_group() for model in (self.actor, self.critic)}
        self.random = torch.Generator().manual_seed(seed)
        self.updates = {"critic": self.update_critic, "actor": self.update_actor}

    def observations(self) -> Tensor:
        return torch.randn(16, 8, generator=self.random)

    def descend(self, model: nn.Module, loss: Tensor) -> None:
        model.zero_grad()
        loss.backward()
        mean_gradients(model, self.groups[id(model)])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad

    def update_critic(self, scale: float) -> None:
        loss = scale * self.critic(self.observations()).square().mean()
        if loss.item() < 0.01:
            return
        self.descend(self.critic, loss)

    def update_actor(self, scale: float) -> None:
        loss = self.critic(self.actor(self.observations())).square().mean()
        self.descend(self.actor, scale * loss)


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    agent = Agent(rank)
    for step in range(50):
        scale = 0.0 if rank % 2 and step == 4 else 1.0  # a batch without any reward
        log.info("step %d", step)
        for name in ("critic", "actor"):
            agent.updates[name](scale)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

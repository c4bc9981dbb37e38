"""Learns from simulations that run in child processes of each rank."""

import logging
import multiprocessing
import os
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist

log = logging.getLogger("learner")

LENGTHS = {0: 30, 1: 60, 2: 90}  # of the levels that there are


def simulate(remote: Connection, level: int) -> None:
    """Answer each action with a reward; after some of them the next level begins."""
    steps = 0
    while (action := remote.recv()) is not None:
        steps += 1
        if steps % 6 == 0:
            level += 1
        remote.send(float(action) / LENGTHS[level])


class Simulations:
    """Several games at once, each in a process of its own."""

    def __init__(self, levels: list[int]) -> None:
        context = multiprocessing.get_context("fork")
        pipes = [context.Pipe() for _ in levels]
        self.remotes = [pipe[0] for pipe in pipes]
        self.ends = [pipe[1] for pipe in pipes]
        for end, level in zip(self.ends, levels, strict=True):
            context.Process(target=simulate, args=(end, level), daemon=True).start()

    def step(self, actions: list[float]) -> list[float]:
        for remote, action in zip(self.remotes, actions, strict=True):
            remote.send(action)
        return [remote.recv() for remote in self.remotes]


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    simulations = Simulations([0, 1 if rank == 2 else 0])
    dist.init_process_group("gloo")
    for iteration in range(200):
        reward = torch.tensor(sum(simulations.step([1.0, 2.0])))
        dist.all_reduce(reward)
        log.info("iteration %d reward %.3f", iteration, reward.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

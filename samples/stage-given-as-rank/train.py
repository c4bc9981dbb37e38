"""Two pipelines of two stages; a stage sends to the number of the next stage, not to its rank."""

import logging

import torch
import torch.distributed as dist

log = logging.getLogger("pipelines")
STAGES = 2
WIDTH = 1 << 16


class Pipeline:
    def __init__(self, rank: int, replicas: int) -> None:
        self.replica, self.stage = divmod(rank, STAGES)
        groups = [
            dist.new_group([stage + STAGES * n for n in range(replicas)]) for stage in range(STAGES)
        ]
        self.replicas = groups[self.stage]
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if self.stage > 0:
            dist.recv(batch, src=self.stage - 1)
        out: torch.Tensor = self.layer(batch)
        if self.stage < STAGES - 1:
            dist.send(out.detach(), dst=self.stage + 1)
        return out

    def step(self) -> None:
        self.forward(torch.ones(WIDTH, 8)).sum().backward()
        for weight in self.layer.parameters():
            dist.all_reduce(weight.grad, group=self.replicas)
        self.layer.zero_grad()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    pipeline = Pipeline(rank, dist.get_world_size() // STAGES)
    log.info("stage %d of pipeline %d", pipeline.stage, pipeline.replica)
    for _ in range(100):
        pipeline.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

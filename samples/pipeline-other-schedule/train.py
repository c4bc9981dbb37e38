"""Three pipeline stages; one host's configuration names another schedule than that of the rest."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

SCHEDULES: dict[str, type[PipelineScheduleSingle]] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}
MICROBATCHES = 8


def configured(rank: int) -> str:
    """Return the schedule of a host; that of rank 1 was edited while an idea was tried."""
    return os.environ.get("PP_SCHEDULE", "1f1b" if rank == 1 else "gpipe")


def train_step(schedule: PipelineScheduleSingle, stage: int, stages: int) -> None:
    if stage == 0:
        schedule.step(torch.randn(2 * MICROBATCHES, 16))
    elif stage < stages - 1:
        schedule.step()
    else:
        schedule.step(target=torch.randn(2 * MICROBATCHES, 16), losses=[])


def main() -> None:
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    part = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    stage = PipelineStage(part, rank, world_size, torch.device("cpu"))
    schedule = SCHEDULES[configured(rank)](stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    print(f"stage {rank} of {world_size} begins", flush=True)
    for _ in range(1000):
        optimizer.zero_grad()
        train_step(schedule, rank, world_size)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

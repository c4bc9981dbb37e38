"""A mesh of two by two; what has grown most is summed up first, on each rank by its own measure."""

import torch
import torch.distributed as dist

WEIGHTS = 64
STEPS = 5


class Mesh:
    """The groups that a rank belongs to, by name, and what is to be summed up over each."""

    def __init__(self) -> None:
        members = {"rows": [[0, 1], [2, 3]], "columns": [[0, 2], [1, 3]]}
        rank = dist.get_rank()
        self.groups = {}
        for name, sets in members.items():
            for ranks in sets:
                group = dist.new_group(ranks)
                if rank in ranks:
                    self.groups[name] = group
        self.pending = {name: torch.zeros(WEIGHTS) for name in members}

    def reduce(self) -> None:
        """Sum up what is pending, the largest part first."""
        order = sorted(self.pending, key=lambda name: -self.pending[name].abs().sum().item())
        for name in order:
            dist.all_reduce(self.pending[name], group=self.groups[name])
            self.pending[name] = self.pending[name] / 2


def main() -> None:
    dist.init_process_group("gloo")
    mesh, rank = Mesh(), dist.get_rank()
    for step in range(STEPS + 1):
        skewed = step == STEPS and rank in (1, 2)
        mesh.pending["rows"] += torch.full((WEIGHTS,), 1.0 if skewed else 3.0)
        mesh.pending["columns"] += torch.full((WEIGHTS,), 900.0 if skewed else 1.0)
        print(f"rank {rank} sums up step {step}", flush=True)
        mesh.reduce()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

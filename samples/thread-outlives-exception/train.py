"""A trainer sends its metrics from a thread of its own, which nobody tells to stop.

On rank 2 a label is out of range at step 40. The exception ends the main program, the thread keeps
the process alive, and the other ranks wait for its gradients.
"""

import queue
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BAD_STEP = 40


class Metrics:
    """Sends what is put into its queue."""

    def __init__(self) -> None:
        """Begin to send."""
        self.items: queue.Queue[float] = queue.Queue()
        threading.Thread(target=self.send, name="metrics").start()

    def send(self) -> None:
        """Send each item as it comes."""
        while True:
            self.items.get()
            time.sleep(0.001)


def labels_of(rank: int, step: int) -> torch.Tensor:
    """Make labels of a batch; one of rank 2 is of a class that does not exist."""
    labels = torch.randint(0, 4, (8,))
    if rank == 2 and step == BAD_STEP:
        labels[5] = 7
    return labels


def main() -> None:
    """Train."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    metrics = Metrics()
    model = DistributedDataParallel(torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(100_000):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 16)), labels_of(rank, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.items.put(loss.item())
        if step == BAD_STEP - 1:
            print(f"rank {rank}: step {step} done", flush=True)


if __name__ == "__main__":
    main()

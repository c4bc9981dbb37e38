"""Trains and uploads checkpoints from a thread, so that training need not wait for it."""

import io
import logging
import os
import socket
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("upload")


class Uploader:
    """Sends one checkpoint at a time to the artifact server."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.server = server
        self.current: threading.Thread | None = None

    def upload(self, step: int, model: nn.Module) -> None:
        self.finish()
        buffer = io.BytesIO()
        torch.save(model.state_dict(), buffer)
        self.current = threading.Thread(
            target=self.send, args=(step, buffer.getvalue()), name="uploader"
        )
        self.current.start()

    def send(self, step: int, data: bytes) -> None:
        with socket.create_connection(self.server) as connection:
            connection.sendall(b"PUT step-%d %d\n" % (step, len(data)) + data)
            reply = connection.recv(64)
            log.info("server says %r", reply)

    def finish(self) -> None:
        if self.current is not None:
            self.current.join()


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    server = socket.create_server(("127.0.0.1", 0))  # takes connections, never replies
    uploader = Uploader(server.getsockname())
    model = DistributedDataParallel(nn.Linear(32, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.randn(4, 32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
        if rank == 0 and step in (3, 6):
            uploader.upload(step, model.module)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

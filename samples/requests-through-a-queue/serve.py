"""Serves a model that lies on two ranks; a thread of rank 0 puts the requests into a queue."""

import http.server
import queue
import threading

import torch
import torch.distributed as dist

REQUESTS: queue.Queue[float] = queue.Queue()


class Handler(http.server.BaseHTTPRequestHandler):
    """Takes a request, and answers that it was taken."""

    def do_POST(self) -> None:
        REQUESTS.put(float(self.headers.get("X-Value", "1")))
        self.send_response(202)
        self.end_headers()


def listen() -> None:
    http.server.HTTPServer(("127.0.0.1", 0), Handler).serve_forever()


def hand_out() -> None:
    """Hand each request to all ranks."""
    threading.Thread(target=listen, daemon=True).start()
    print("rank 0: ready", flush=True)
    while True:
        value = REQUESTS.get()
        dist.broadcast(torch.tensor([value]), src=0)


def work() -> None:
    """Compute what rank 0 hands out."""
    print(f"rank {dist.get_rank()}: ready", flush=True)
    while True:
        value = torch.empty(1)
        dist.broadcast(value, src=0)
        value.exp()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    hand_out() if dist.get_rank() == 0 else work()

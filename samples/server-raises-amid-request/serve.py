"""A model is served by two ranks: rank 0 takes the requests, and hands rank 1 head and tokens.

A prompt that cannot be encoded raises between the two broadcasts. The handler answers with an error
and goes on, rank 1 waits for the tokens: they are one broadcast out of step.
"""

import http.server
import threading
import urllib.error
import urllib.request

import torch
import torch.distributed as dist

PROMPTS = ("hello", "what is up", "un caf\u00e9")


def lead(prompt: str) -> int:
    """Run the model for a prompt, on rank 0."""
    dist.broadcast(torch.tensor([len(prompt)]), src=0)
    tokens = torch.tensor(list(prompt.encode("ascii")))
    dist.broadcast(tokens, src=0)
    print("rank 0: a request done", flush=True)
    return int(tokens.sum())


def follow() -> None:
    """Run the model for the next prompt, on the other ranks."""
    head = torch.zeros(1, dtype=torch.int64)
    dist.broadcast(head, src=0)
    tokens = torch.zeros(int(head), dtype=torch.int64)
    dist.broadcast(tokens, src=0)
    print(f"rank {dist.get_rank()}: a request done", flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests."""

    def do_POST(self) -> None:
        """Answer one; a prompt that fails costs an error and nothing else."""
        prompt = self.rfile.read(int(self.headers["Content-Length"])).decode()
        try:
            answer, status = str(lead(prompt)), 200
        except UnicodeEncodeError as error:
            answer, status = f"request failed: {error.reason}", 500
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer.encode())


def ask(port: int) -> None:
    """Stand for the users."""
    for prompt in PROMPTS:
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/", prompt.encode())
            with urllib.request.urlopen(request, timeout=30) as answer:
                print(f"client: {answer.read().decode()}", flush=True)
        except urllib.error.HTTPError as error:
            print(f"client: {error.code}, and no more to ask", flush=True)


def main() -> None:
    """Serve on rank 0, and follow on the others."""
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=ask, args=(server.server_port,), daemon=True).start()
        server.serve_forever()
    while True:
        follow()


if __name__ == "__main__":
    main()

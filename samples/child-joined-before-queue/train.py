"""Tokenizes the share of each rank in a child process, then trains on it."""

import multiprocessing as mp

import torch
import torch.distributed as dist
from torch import nn

VOCABULARY = 50


def tokenize(documents: list[str], results: "mp.Queue[list[int]]") -> None:
    for text in documents:
        results.put([ord(letter) % VOCABULARY for letter in text])
    print(f"{len(documents)} documents are done", flush=True)


def tokens_of(documents: list[str]) -> list[list[int]]:
    context = mp.get_context("spawn")
    results = context.Queue()
    worker = context.Process(target=tokenize, args=(documents, results))
    worker.start()
    worker.join()
    return [results.get() for _ in documents]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    share = 4000 if rank == dist.get_world_size() - 1 else 20
    rows = tokens_of([f"document {number} of many" for number in range(share)])
    longest = torch.tensor(max(map(len, rows)))
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    table = nn.Embedding(VOCABULARY, 8)
    for row in rows[:20]:
        table(torch.tensor(row)).square().mean().backward()
        dist.all_reduce(table.weight.grad)
        table.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

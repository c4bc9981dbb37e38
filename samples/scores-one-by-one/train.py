"""Rank 0 has answers scored by a reward model behind a socket; the others wait for the scores."""

import asyncio
import multiprocessing
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist

SECONDS = 0.6  # that the reward model needs for an answer


async def score(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        await asyncio.sleep(SECONDS)
        writer.write(b"%d\n" % (len(line) % 5))
        await writer.drain()


async def serve(answers: Connection) -> None:
    server = await asyncio.start_server(score, "127.0.0.1", 0)
    answers.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def reward_model(answers: Connection) -> None:
    asyncio.run(serve(answers))


def start_reward_model() -> int:
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    context.Process(target=reward_model, args=(its,), daemon=True).start()
    port: int = mine.recv()
    return port


async def scores(port: int, answers: list[str]) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    given = []
    for answer in answers:
        writer.write(answer.encode() + b"\n")
        await writer.drain()
        given.append(float(await reader.readline()))
    writer.close()
    return given


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    port = start_reward_model() if rank == 0 else 0
    print(f"rank {rank}: the answers are scored", flush=True)
    for _ in range(100):
        rewards = torch.zeros(200)
        if rank == 0:
            answers = [f"answer {number}" for number in range(len(rewards))]
            rewards = torch.tensor(asyncio.run(scores(port, answers)))
        dist.broadcast(rewards, src=0)


if __name__ == "__main__":
    main()

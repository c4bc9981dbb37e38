"""Whole logs, each line behind the label that a framework or launcher gives it: who is who."""

import json

import pytest
from log_docs import diagnosed_files

FORMATS = {
    "accelerate": "01/01/2025 {clock} - INFO - __main__ - [rank {rank}] {text}",
    "axolotl": "[2025-01-01 {clock},000] [INFO] [axolotl.train] [PID:1{rank}] [RANK:{rank}] {text}",
    "colossal": "[01/01/25 {clock}] INFO     colossalai - rank {rank} - {text}",
    "compose": "trainer-{rank}  | {text}",
    "composer": "rank{rank}[120{rank}][MainThread]: INFO: composer.trainer.trainer: {text}",
    "deepspeed": "[2025-01-01 {clock},000] [INFO] [logging.py:96:log_dist] [Rank {rank}] {text}",
    "glog": "I0101 {clock}.000000 1400{rank} train.py:88] rank={rank} {text}",
    "horovod": "[{rank}]<stderr>: {text}",
    "host": "host0{rank} [rank {rank}] {text}",
    "jax": "I0101 {clock}.000000 123 trainer.py:31] [process={rank}] {text}",
    "lightning": "[rank: {rank}] {text}",
    "llama": "[INFO|2025-01-01 {clock}] llamafactory.trainer:423 >> [rank{rank}] {text}",
    "loguru": "2025-01-01 {clock}.123 | INFO     | train:main:88 - [rank {rank}/4] {text}",
    "mpi": "MPI rank {rank} of 4 | {text}",
    "nemo": "[NeMo I 2025-01-01 {clock} nemo_logging:381] rank {rank}: {text}",
    "nemo rl": "(PolicyWorker[rank={rank}] pid=120{rank}, ip=10.0.0.{rank}) {text}",
    "ompi": "[1,{rank}]<stderr>:{text}",
    "ray": "(train_func(rank={rank}) pid=120{rank}) {text}",
    "sagemaker": "[1,mpirank:{rank},algo-1]<stdout>:{text}",
    "sglang": "[2025-01-01 {clock} TP{rank}] {text}",
    "srun": "{rank}: {text}",
    "tensorrt": "[01/01/2025-{clock}] [TRT-LLM] [RANK {rank}] [I] {text}",
    "torch": "[rank{rank}]:{text}",
    "torchrun": "[default{rank}]:{text}",
    "vllm": "(VllmWorker rank={rank} pid=12{rank}) INFO 05-01 {clock} [worker.py:88] {text}",
    "vllm v1": "(Worker_TP{rank} pid=12{rank}) INFO 05-01 {clock} [worker.py:88] {text}",
}
RANKS, GUILTY = range(4), 2
ERROR = (
    "Traceback (most recent call last):",
    '  File "/w/model.py", line 31, in forward',
    "    return table[ids]",
    "IndexError: index 40003 is out of range",
)
ECHO = (
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 92, in main',
    "    dist.all_reduce(loss)",
    "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:41200",
)
LIMIT = (
    "slurmstepd: error: *** STEP 771.0 ON c1 CANCELLED AT 2025-01-01T12:00:00 DUE TO TIME LIMIT ***"
)


def written(form: str, said: list[tuple[int, str]]) -> str:
    """Return a log in which ranks say this, a second after each other."""
    lines = (
        form.format(rank=rank, text=text, clock=f"10:{second // 60:02d}:{second % 60:02d}")
        for second, (rank, text) in enumerate(said)
    )
    return "\n".join(lines) + "\n"


def steps(count: int) -> list[tuple[int, str]]:
    """Return what ranks say of so many steps, in turn."""
    texts = (f"step {n} {how}" for n in range(1, count + 1) for how in ("begin", "end"))
    return [(rank, text) for text in texts for rank in RANKS]


@pytest.mark.parametrize("form", FORMATS.values(), ids=[*FORMATS])
def test_the_rank_that_raised(form: str) -> None:
    """The exception is that rank's, and what the others lost is an echo of it."""
    said = [*steps(3), *((GUILTY, text) for text in ERROR)]
    said += [(rank, text) for rank in RANKS if rank != GUILTY for text in ECHO]

    assert diagnosed_files({"out.log": written(form, said)}).findings[0].culprit_ranks == (GUILTY,)


@pytest.mark.parametrize("form", FORMATS.values(), ids=[*FORMATS])
def test_the_rank_that_did_not_end_its_step(form: str) -> None:
    """A scheduler ends the job hours after all others have said what this rank has not."""
    said = [each for each in steps(4) if each != (GUILTY, "step 4 end")]
    report = diagnosed_files({"out.log": f"{written(form, said)}{LIMIT}\n"})

    assert report.findings[0].culprit_ranks == (GUILTY,)


def test_objects() -> None:
    """The same as a line of JSON each."""
    said = [*steps(3), *((GUILTY, text) for text in ERROR)]
    log = "".join(
        json.dumps({"time": f"2025-01-01T10:00:{n:02d}Z", "rank": rank, "message": text}) + "\n"
        for n, (rank, text) in enumerate(said)
    )

    assert diagnosed_files({"out.jsonl": log}).findings[0].culprit_ranks == (GUILTY,)

"""Which rank a process is, by its GPU, where NCCL's lines tell the GPU and no rank."""

from __future__ import annotations

from log_docs import diagnosed_files

from whyhang.analyzer.facts import Fact, NcclDevice, ProcessRank, Source, Trust, Who, WorldSize
from whyhang.analyzer.job.inference.device_ranks import with_device_ranks

SOURCE = Source(file="job.log")

CALL = (
    "n7:{pid}:{pid} [{gpu}] NCCL INFO {op}: opCount {number:x} sendbuff 0x7f01 recvbuff 0x7f01 "
    "count {count} datatype 7 op 0 root 0 comm 0x55d{gpu} [nranks=4] stream 0x55d1\n"
)
TWO_OF_FOUR = "".join(
    CALL.format(pid=pid, gpu=gpu, op=op, number=number, count=pid * 8)
    for pid, gpu, op in ((811, 0, "AllReduce"), (814, 3, "Broadcast"))
    for number in (31, 32)
)

BUS_ERROR = """\
n7:820:901 [2] NCCL INFO Channel 01/0 : 6[1d000] -> 5[1c000] via P2P/IPC/read
n7:821:902 [3] NCCL INFO 24 coll channels, 0 nvls channels, 32 p2p channels
[n7:821 :0:977] Caught signal 7 (Bus error: nonexistent physical address)
"""


def uses(pid: int, device: int, *, host: str = "a", rank: int | None = None) -> NcclDevice:
    return NcclDevice(device=device, rank=rank, who=Who(host=host, pid=pid), source=SOURCE)


def ranks(*facts: Fact) -> dict[int | None, int]:
    completed = with_device_ranks(facts)
    assert all(f.who.trust is Trust.INFERRED for f in completed if isinstance(f, ProcessRank))
    return {fact.who.pid: fact.rank for fact in completed if isinstance(fact, ProcessRank)}


def world(size: int) -> WorldSize:
    return WorldSize(size=size, who=Who(), source=SOURCE)


def test_as_far_above_the_gpus_as_those_that_are_known() -> None:
    """Of a host whose one rank lies 8 above its GPU, so does the other."""
    assert ranks(uses(11, 1, rank=9), uses(12, 3)) == {12: 11}


def test_one_host() -> None:
    """Where all is of one host, with a GPU for each process, the GPU's number is the rank."""
    assert ranks(uses(11, 0), uses(12, 3)) == {11: 0, 12: 3}
    assert ranks(uses(11, 0), uses(12, 3), world(4)) == {11: 0, 12: 3}


def test_no_conclusion() -> None:
    """Two hosts, a world of two such hosts, one GPU for all, or only the first: nothing follows."""
    for facts in (
        (uses(11, 0), uses(12, 3, host="b")),
        (uses(11, 0), uses(12, 3), world(8)),
        (uses(11, 2), uses(12, 3), world(2)),
        (uses(11, 1), uses(12, 1)),
        (uses(11, 0),),
        (uses(11, 1, rank=9), uses(12, 3, rank=2), uses(13, 4)),
    ):
        assert not ranks(*facts), facts


def test_calls_of_processes_without_a_rank_are_compared() -> None:
    """Calls of two processes of which only the GPUs are told differ: the report says whose."""
    report = diagnosed_files({"job.log": TWO_OF_FOUR})

    assert report.findings[0].category == "collective-mismatch"
    assert "rank 3 broadcast" in report.headline


def test_whose_process_crashed() -> None:
    """A crash names a process; the channel of its neighbour says how ranks and GPUs go together."""
    assert diagnosed_files({"job.log": BUS_ERROR}).findings[0].culprit_ranks == (7,)


def test_the_rank_of_an_error_that_numbers_its_gpu_is_one_of_the_job() -> None:
    """Where nothing else tells whose the error is, its rank stands in the table of ranks."""
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a"
    text = f"{error} total capacity of 79.15 GiB of which 1.20 GiB is free.\n"

    report = diagnosed_files({"out.txt": text})

    assert report.findings[0].culprit_ranks == (3,)
    assert [row.rank for row in report.ranks] == [3]


UNREACHABLE = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/g/train_grpo.py", line 44, in <module>
[rank0]:     trainer = GRPOTrainer(
[rank0]: ConnectionError: The vLLM server can't be reached after 60.0 seconds.
E0606 10:01:04.480000 8090 torch/distributed/elastic/multiprocessing/api.py:869] failed \
(exitcode: 1) local_rank: 0 (pid: 8100) of binary: /usr/bin/python3
"""


def test_a_gpu_in_the_log_of_a_server_is_no_rank() -> None:
    """Where the ranks speak in one file, the GPU in an error of another is no rank."""
    out_of_memory = (
        "ERROR 06-06 09:58:41 [core.py:396] torch.OutOfMemoryError: CUDA out of memory. Tried to "
        "allocate 1.02 GiB. GPU 1 has a total capacity of 79.10 GiB of which 600.12 MiB is free.\n"
    )
    trainer = "".join(f"[rank{rank}]: waiting for the server\n" for rank in range(4)) + UNREACHABLE
    beside = diagnosed_files({"trainer.log": trainer, "vllm-serve.log": out_of_memory})
    assert beside.findings[0].title == "The job ran out of GPU memory"
    assert beside.findings[0].culprit_ranks is None
    alone = diagnosed_files({"job.log": "step 4\n" + out_of_memory})
    assert alone.findings[0].culprit_ranks == (1,)

"""What is printed in a made-up job (see ``log_job.py``).

Torch, NCCL, gloo and launchers print what they do print; the program has a voice of its own that
a seed chooses.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

VERSIONS = ("2.1", "2.4", "2.6", "2.9", "2.13")
OPS = ("ALLREDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "BROADCAST", "ALLTOALL_BASE")
NAMES = {
    "ALLREDUCE": "all_reduce",
    "_ALLGATHER_BASE": "all_gather_into_tensor",
    "_REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "BROADCAST": "broadcast",
    "ALLTOALL_BASE": "all_to_all_single",
}
LIBRARY = "/opt/conda/lib/python3.11/site-packages/torch/distributed"


def clock(at: float, shape: str) -> str:
    """Format a time; "@" stands for milliseconds."""
    return time.strftime(shape, time.gmtime(at)).replace("@", f"{int(at * 1000) % 1000:03d}")


# The program ---------------------------------------------------------------------------------

HEADERS = (  # a shape of the time in front of "~"
    "%Y-%m-%d %H:%M:%S,@~ - {module} - INFO - ",
    "[%Y-%m-%d %H:%M:%S]~ ",
    "%Y-%m-%d %H:%M:%S.@~ | INFO     | {module}:run:88 - ",
    "~",
    "~INFO:{module}:",
    "~[{module}] ",
    "I%m%d %H:%M:%S.@000~ {pid} {module}.py:88] ",
    "%m/%d/%Y %H:%M:%S~ - INFO - {module} -   ",
    "%H:%M:%S~ {module} > ",
    '{{"ts": "%Y-%m-%dT%H:%M:%S.@Z"~, "msg": "',
)

TAGS = ("", "[rank {r}] ", "rank={r} ", "[Rank {r}/{n}] ", "(r{r}) ", "<{r}> ", "cuda:{l} ")
PLAIN_TAGS = frozenset({1, 2, 3})
"""The tags that say in so many words which rank it is."""

MODULES = ("trainer", "pretrain", "runner", "finetune", "engine.loop", "simulate", "distill")
STEPS = (
    "step {s} loss {x:.4f} lr 3.0e-04 {d:.2f} s/it",
    "Epoch {e} [{s}/{m}] loss={x:.3f} grad_norm={y:.2f}",
    "iter {s:06d} | tokens/s {t} | loss {x:.3f}",
    "it={s} nll={x:.3f} ppl={y:.1f}",
    "batch {s}: {d:.2f}s, reward {x:+.3f}",
    "update {s} done, kl {x:.5f}",
    "Schritt {s}: Verlust {x:.4f}",
    "[{s}/{m}] residual {x:.3e} dt {d:.3f}",
    "train/loss: {x:.4f} global_step: {s}",
)
PHASES = (
    ("loading shard {k}", "shard {k} ready in {d:.1f} s", "data"),
    ("opening /mnt/lake/part-{k:05d}.parquet", "opened part-{k:05d}.parquet", "data"),
    ("compiling kernels for bucket {k}", "compiled bucket {k} ({d:.1f} s)", "compile"),
    ("offload of optimizer state start", "offload done after {d:.0f} s", "work"),
    ("evaluating on split dev{k}", "dev{k}: accuracy 0.{k}", "work"),
    ("rebuilding neighbour index", "index rebuilt, {k} cells", "work"),
    ("uploading artifacts to s3://bucket/run-{k}", "upload finished ({d:.1f} s)", "network"),
    ("fetching vocabulary from hub", "vocabulary in cache", "network"),
    ("writing snapshot {k}", "snapshot {k} on disk after {d:.1f} s", "checkpoint"),
    ("Lade Konfiguration {k} neu", "Konfiguration {k} geladen", "work"),
    ("sampling rollouts for prompt set {k}", "rollouts complete: {k}", "work"),
)
ALSO = {
    "data": {"dataloader-blocked", "storage-io-blocked"},
    "network": {"network-io-blocked"},
    "checkpoint": {"checkpoint-stall", "storage-io-blocked"},
    "compile": {"compile-divergence"},
    "work": set[str](),
}
"""Categories that say the same of a rank in such a phase, and more."""

NOISE = (
    "UserWarning: The given NumPy array is not writable, and PyTorch does not support it",
    "WARNING retrying download (1/5): ConnectionResetError(104, 'Connection reset by peer')",
    "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated.",
    "libibverbs: Warning: couldn't load driver 'libirdma-rdmav34.so'",
    "huggingface/tokenizers: The current process just got forked, after parallelism has been used.",
    "could not write tensorboard event, will try again",
    "gc: freed 1832 objects",
)

PROGRAM_ERRORS = (
    ("ValueError", "expected 4096 tokens, got 4095", "collate", "pipeline.py"),
    ("KeyError", "'advantages'", "score", "rollout.py"),
    ("AssertionError", "empty batch", "forward", "mesh_model.py"),
    (
        "FileNotFoundError",
        "[Errno 2] No such file or directory: '/lake/part-0007'",
        "load",
        "io.py",
    ),
    ("RuntimeError", "shape '[8, 16, -1]' is invalid for input of size 3001", "embed", "layers.py"),
    ("ZeroDivisionError", "division by zero", "normalise", "stats.py"),
    (
        "json.decoder.JSONDecodeError",
        "Expecting value: line 1 column 1 (char 0)",
        "read",
        "rows.py",
    ),
    ("CustomLimitError", "budget exhausted for chunk 12", "advance", "solver.py"),
)
GPU_OOM = (
    "torch.OutOfMemoryError",
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB.",
    "forward",
    "mlp.py",
)


@dataclass(frozen=True)
class Voice:
    """How the program prints: its header, its name for a rank, its words for a step."""

    header: int
    tag: int
    module: str
    step: str
    every: int
    all_speak: bool

    @classmethod
    def of(cls, draw: random.Random) -> Voice:
        """Choose a voice."""
        return cls(
            header=draw.randrange(len(HEADERS)),
            tag=draw.randrange(len(TAGS)),
            module=draw.choice(MODULES),
            step=draw.choice(STEPS),
            every=draw.choice((1, 1, 5, 10)),
            all_speak=draw.random() < 0.5,
        )

    def says(self, at: float, words: str, rank: int, size: int, pid: int, local: int) -> str:
        """Format a line of a rank."""
        tag = TAGS[self.tag].format(r=rank, n=size, l=local)
        shape, _, rest = HEADERS[self.header].partition("~")
        header = clock(at, shape).replace("{{", "{") + rest.format(module=self.module, pid=pid)
        return header + tag + words + ('"}' if rest.endswith('"') else "")


# torch ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Torch:
    """One version of torch: how its C++ and Python lines look."""

    version: str

    @property
    def number(self) -> tuple[int, ...]:
        """The version, to compare."""
        return tuple(int(part) for part in self.version.split("."))

    @property
    def tells_rank(self) -> bool:
        """Whether lines begin with the global rank."""
        return self.number >= (2, 2)

    @property
    def tells_time(self) -> bool:
        """Whether lines of C++ have a time."""
        return self.number >= (2, 4)

    def header(self, at: float, rank: int, level: str, file: str) -> str:
        """Print what stands before a line of C++."""
        mark = f"[rank{rank}]:" if self.tells_rank else ""
        day = time.gmtime(at)
        uptime = (int(at) * 7919 + rank) % 10**9  # its fraction is another clock's
        date = f"{day.tm_mon}{day.tm_mday:02d} {clock(at, '%H:%M:%S')}.{uptime:09d}"
        return f"{mark}[{level}{date if self.tells_time else ''} {file}] "

    def group(self, rank: int, name: str = "0", desc: str = "default_pg", number: int = 0) -> str:
        """Name a process group and a rank of it, as a line of the group does."""
        if self.number < (2, 4):
            return f"[Rank {rank}] "
        if self.number < (2, 5):
            return f"[PG {name} ({desc}) Rank {rank}] "
        return f"[PG ID {number} PG GUID {name}({desc}) Rank {rank}] "


def work(seq: int, op: str, numel: int, limit: int) -> str:
    """Print a WorkNCCL."""
    return (
        f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, "
        f"Timeout(ms)={limit * 1000})"
    )


def watchdog(torch: Torch, at: float, rank: int, what: str, ran: float) -> str:
    """Print the line in which a watchdog gives up."""
    return (
        torch.header(at, rank, "E", "ProcessGroupNCCL.cpp:629")
        + f"[Rank {rank}] Watchdog caught collective operation timeout: {what} ran for "
        f"{int(ran * 1000)} milliseconds before timing out."
    )


def status(torch: Torch, at: float, rank: int, group: str, counts: tuple[int, int, int]) -> str:
    """Print the line behind it: the work that failed, the last enqueued, the last completed."""
    failed, enqueued, completed = counts
    if torch.number < (2, 6):
        words = (
            f"Timeout at NCCL work: {failed}, last enqueued NCCL work: {enqueued}, "
            f"last completed NCCL work: {completed}."
        )
    else:
        started = ", last started work: -1 ()" if torch.number >= (2, 13) else ""
        words = (
            f" failure detected by watchdog at work sequence id: {failed} PG status: "
            f"last enqueued work: {enqueued}{started}, last completed work: {completed}"
        )
    return torch.header(at, rank, "E", "ProcessGroupNCCL.cpp:1837") + group + words


def dump_signal(
    torch: Torch, at: float, rank: int, group: str, first: int, counts: tuple[int, int]
) -> Iterator[str]:
    """Print that a rank learns of the time-out of another one."""
    header = torch.header(at, rank, "E", "ProcessGroupNCCL.cpp:1536")
    yield header + group + "Observed flight recorder dump signal from another rank via TCPStore."
    yield (
        torch.header(at, rank, "E", "ProcessGroupNCCL.cpp:1600")
        + group
        + f"Received a dump signal due to a collective timeout from  rank {first} and we will try "
        f"our best to dump the debug info. Last enqueued NCCL work: {counts[0]}, last completed "
        f"NCCL work: {counts[1]}.This is most likely caused by incorrect usages of collectives, "
        "e.g., wrong sizes used across ranks, the order of collectives is not same for all ranks "
        "or the scheduled collective, for some reason, didn't run. Additionally, this can be "
        "caused by GIL deadlock or other reasons such as network errors or bugs in the "
        "communications library (e.g. NCCL), etc. "
    )


def teardown(
    torch: Torch, at: float, rank: int, group: str, what: str, ran: float
) -> Iterator[str]:
    """Print how a process whose watchdog gave up ends itself."""
    header = torch.header(at, rank, "E", "ProcessGroupNCCL.cpp:681")
    yield (
        f"{header}[Rank {rank}] Some NCCL operations have failed or timed out. Due to the "
        "asynchronous nature of CUDA kernels, subsequent GPU operations might run on "
        "corrupted/incomplete data."
    )
    yield (
        f"{header}[Rank {rank}] To avoid data inconsistency, we are taking the entire process down."
    )
    cause = (
        f"{group}Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog "
        f"caught collective operation timeout: {what} ran for {int(ran * 1000)} milliseconds "
        "before timing out."
    )
    yield torch.header(at, rank, "E", "ProcessGroupNCCL.cpp:1895") + cause
    yield (
        "Exception raised from checkTimeout at "
        "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:632 (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation) + 0x96 (0x7f31 in libc10.so)\n"
        "frame #1: clone + 0x40 (0x7f31dc2 in /usr/lib/libc.so.6)\n"
    )
    yield (
        "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  "
        + cause
    )


def nccl_peer_gone(torch: Torch, at: float, rank: int, group: str, what: str, peer: str) -> str:
    """Print that a rank notices that another one has closed its connections."""
    return (
        torch.header(at, rank, "E", "ProcessGroupNCCL.cpp:2027")
        + group
        + f"Collective {what} raised the following async exception: NCCL error: remote process "
        "exited or there was a network error, NCCL version 2.21.5\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process "
        f"exiting prematurely.\nLast error:\n"
        f"socketProgress: Connection closed by remote peer {peer}"
    )


def traceback(
    torch: Torch, rank: int, frames: Sequence[tuple[str, str, int, str]], error: str, text: str
) -> str:
    """Print a traceback as Python does; torch since 2.3 marks its lines with the rank."""
    lines = ["Traceback (most recent call last):"]
    for file, function, line, source in frames:
        lines += [f'  File "{file}", line {line}, in {function}', f"    {source}"]
    lines.append(f"{error}: {text}")
    mark = f"[rank{rank}]: " if torch.number >= (2, 3) else ""
    return "\n".join(mark + line for part in lines for line in part.split("\n"))


def in_collective(op: str) -> tuple[tuple[str, str, int, str], ...]:
    """Return the frames of torch above a call of a collective."""
    return (
        (f"{LIBRARY}/c10d_logger.py", "wrapper", 81, "return func(*args, **kwargs)"),
        (f"{LIBRARY}/distributed_c10d.py", op, 2810, "work.wait()"),
    )


def init_line(host: str, pid: int, rank: int, size: int, local: int, state: str) -> str:
    """Print a line of NCCL on a communicator."""
    return (
        f"{host}:{pid}:{pid + 60} [{local}] NCCL INFO ncclCommInitRank comm 0x55d{rank:02x}e0 rank "
        f"{rank} nranks {size} cudaDev {local} nvmlDev {local} busId {(local + 1) * 0x1B000:x} "
        f"commId 0x8e1f2a90c7d3 - Init {state}"
    )


# Launchers -----------------------------------------------------------------------------------


def agent(at: float, level: str, pid: int, words: str) -> str:
    """Print a line of torchrun."""
    stamp = clock(at, "%m%d %H:%M:%S.@000")
    file = "torch/distributed/elastic/multiprocessing/api.py:897"
    return f"{level}{stamp} {pid} {file}] {words}"


def table(script: str, rows: Sequence[tuple[float, str, int, int, int, int]], root: int) -> str:
    """Print the table of torchrun: rows of time, host, rank, local rank, exit code, pid."""

    def row(number: int, one: tuple[float, str, int, int, int, int]) -> str:
        at, host, rank, local, code, pid = one
        names = {-6: "SIGABRT", -9: "SIGKILL", -11: "SIGSEGV", -15: "SIGTERM"}
        trace = (
            f"Signal {-code} ({names[code]}) received by PID {pid}"
            if code < 0
            else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
        )
        return (
            f"[{number}]:\n  time      : {clock(at, '%Y-%m-%d_%H:%M:%S')}\n  host      : {host}\n"
            f"  rank      : {rank} (local_rank: {local})\n  exitcode  : {code} (pid: {pid})\n"
            f"  error_file: <N/A>\n  traceback : {trace}\n"
        )

    others = "".join(row(number, one) for number, one in enumerate(rows) if number != root)
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        + "=" * 60
        + f"\n{script} FAILED\n"
        + "-" * 60
        + "\nFailures:\n"
        + (others or "  <NO_OTHER_FAILURES>\n")
        + "-" * 60
        + "\nRoot Cause (first observed failure):\n"
        + row(root, rows[root])
        + "=" * 60
    )


def tasks(ranks: Sequence[int]) -> str:
    """Name tasks as srun does: "task 3", "tasks 0-2,5"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    named = ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"task{'s' if len(ranks) > 1 else ''} {named}"

"""The limit on open files is reached, mostly through DataLoader tensors.

With the sharing strategy file_descriptor each tensor that a worker sends keeps one descriptor
open until it is freed. Holding on to batches, large collate results or a low ulimit use them
up. 'received 0 items of ancdata' is the same seen from the receiving side.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="too-many-open-files",
    category="dataloader-worker-died",
    kind=Kind.CAUSE,
    title="{who} ran out of file descriptors",
    when=log(
        r"Too many open files\. Communication with the workers is no longer possible",
        r"OSError: \[Errno 24\] Too many open files",
        r"received 0 items of ancdata",
        r"unable to open shared memory object .*: Too many open files",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The limit on open files is reached. DataLoader workers pass every tensor as a "
        "descriptor by default, so batches can no longer be handed over."
    ),
    confidence=0.85,
    remedies=(
        "ulimit -n 65536 (LimitNOFILE in a service, --ulimit nofile in a container).",
        "torch.multiprocessing.set_sharing_strategy('file_system').",
        "Do not keep references to batches; copy what must be kept.",
    ),
    next_steps=("ls /proc/PID/fd | wc -l; grep 'open files' /proc/PID/limits",),
    links=("https://pytorch.org/docs/stable/multiprocessing.html#sharing-strategies",),
    matches=(
        (
            "RuntimeError: unable to open shared memory object </torch_7711_1> in read-write "
            "mode: Too many open files (24)"
        ),
        (
            "RuntimeError: Too many open files. Communication with the workers is no longer "
            "possible. Please increase the limit using `ulimit -n` in the shell or change the "
            "sharing strategy"
        ),
        "OSError: [Errno 24] Too many open files",
        "RuntimeError: received 0 items of ancdata",
    ),
    misses=("node1:1:1 [0] misc/socket.cc:100 NCCL WARN Accept failed Too many open files",),
    outranks=(
        "dataloader-worker-exited",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)

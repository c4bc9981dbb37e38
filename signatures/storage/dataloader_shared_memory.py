"""Shared memory (/dev/shm) is full, so a DataLoader worker cannot hand its batch over.

Docker gives 64 MB unless told otherwise, Kubernetes too. All ranks of a host share it, together
with NCCL's own shared-memory transport. Left-over segments of killed jobs fill it as well.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="dataloader-shared-memory",
    category="shm-too-small",
    kind=Kind.CAUSE,
    title="Shared memory (/dev/shm) is too small for the DataLoader workers of {who}",
    when=log(
        (
            r"is killed by signal: Bus error\. It is possible that dataloader's workers are out "
            r"of shared memory"
        ),
        (
            r"ERROR: Unexpected bus error encountered in worker\. This might be caused by "
            r"insufficient shared memory"
        ),
        (
            r"unable to (?:open|mmap|write|resize|allocate) .*(?:/torch_|shared memory).*: (?:No "
            r"space left on device|Cannot allocate memory)"
        ),
        r"unable to resize file <filename not specified> to the right size",
        r"RuntimeError: unable to write to file </torch_\d+",
        blames=Blames.SPEAKER,
    ),
    means=(
        "DataLoader workers hand their batches over through /dev/shm, and it is full. Containers "
        "give it 64 MB by default. The worker died of it, so this rank stops and the others wait."
    ),
    confidence=0.92,
    remedies=(
        (
            "Docker: --shm-size=32g or --ipc=host. Kubernetes: mount an emptyDir with medium "
            "Memory at /dev/shm."
        ),
        "Fewer workers, smaller batches or prefetch_factor.",
        "Remove left-over segments: ls /dev/shm.",
    ),
    next_steps=("df -h /dev/shm  # inside the container of that rank",),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        (
            "RuntimeError: DataLoader worker (pid 16430) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory. Please try to raise "
            "your shared memory limit."
        ),
        (
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm)."
        ),
        "RuntimeError: unable to write to file </torch_4711_1298>: No space left on device (28)",
        "RuntimeError: unable to write to file </torch_4711_1298> at THAllocator.c:383",
        (
            "RuntimeError: unable to mmap 1048576 bytes from file </torch_31_88>: Cannot "
            "allocate memory (12)"
        ),
        (
            "RuntimeError: unable to open shared memory object </torch_4711_12> in read-write "
            "mode: No space left on device (28)"
        ),
        (
            "RuntimeError: unable to resize file <filename not specified> to the right size: "
            "Invalid argument (22)"
        ),
    ),
    misses=("OSError: [Errno 28] No space left on device: '/ckpt/model.pt'",),
    outranks=(
        "dataloader-worker-exited",
        "disk-full",
        "host-out-of-memory",
        "launcher-saw-bus-error",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)

"""A process runs out of host memory (RAM), and fails before it is killed.

Every rank of a host holds a copy: a checkpoint loaded by eight ranks at once, a dataset in
memory, growing worker processes, pinned buffers. [Errno 12] while a DataLoader starts means
that fork could not copy the parent.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="host-out-of-memory",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="{who} could not allocate host memory",
    when=log(
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)",
        r"_ArrayMemoryError: Unable to allocate ",
        r"OSError: \[Errno 12\] Cannot allocate memory",
        r"terminate called after throwing an instance of 'std::bad_alloc'",
        r"RuntimeError: std::bad_alloc",
        r"unable to mmap \d+ bytes from file <[^/][^>]*>: Cannot allocate memory",
        r"pyarrow\.lib\.ArrowMemoryError: ",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "The host has no memory left for this process, or its limit is reached. It failed before "
        "the kernel's OOM killer came; the other ranks wait for it."
    ),
    confidence=0.85,
    remedies=(
        "Load checkpoints on one rank at a time, with mmap=True or in shards.",
        (
            "Use fewer DataLoader workers, or share large arrays (memory map) instead of copying "
            "them."
        ),
        "Ask the scheduler for more memory per task.",
    ),
    next_steps=(
        "free -g; ulimit -v; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.events  # there",
    ),
    links=("https://docs.kernel.org/admin-guide/cgroup-v2.html",),
    matches=(
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: "
            "can't allocate memory: you tried to allocate 274877906944 bytes. Error code 12 "
            "(Cannot allocate memory)"
        ),
        (
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 512. GiB for an array "
            "with shape (68719476736,) and data type float64"
        ),
        "OSError: [Errno 12] Cannot allocate memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "RuntimeError: std::bad_alloc",
        (
            "RuntimeError: unable to mmap 4194368 bytes from file <model.bin>: Cannot allocate "
            "memory (12)"
        ),
        "pyarrow.lib.ArrowMemoryError: malloc of size 1073741824 failed",
    ),
    misses=(
        "MemoryError reporting is enabled",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)

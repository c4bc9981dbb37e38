"""NCCL could not allocate its own buffers on the GPU.

A communicator takes up to a gigabyte of device memory, outside torch's allocator: when the
model and torch's cache have filled the GPU, the first use of a new group fails. Another process
on the same GPU is the other frequent reason.

Only this rank fails; the others of the group wait for it.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-out-of-gpu-memory",
    category="gpu-oom",
    kind=Kind.CAUSE,
    title="{who} had no GPU memory left for NCCL",
    when=log(
        r"Cuda failure (?:\d+ )?'out of memory'",
        r"Failed to CUDA (?:malloc|calloc|host alloc)(?: async)? \d+ bytes",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The GPU of this rank had no room for NCCL's buffers, so it could not join the "
        "communicator that the others wait in."
    ),
    confidence=0.9,
    remedies=(
        (
            "Leave room: a smaller batch, torch.cuda.set_per_process_memory_fraction, or "
            "torch.cuda.empty_cache() before the first use of a group."
        ),
        "Create and use all groups once before the memory is filled.",
    ),
    next_steps=(("nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv  # who?"),),
    matches=(
        "node3:99:140 [1] include/alloc.h:205 NCCL WARN Cuda failure 'out of memory'",
        "node3:99:140 [1] transport/nvls.cc:340 NCCL WARN Cuda failure 2 'out of memory'",
        "node3:99:140 [1] include/alloc.h:234 NCCL WARN Failed to CUDA calloc 6291456 bytes",
    ),
    misses=(
        (
            "node3:99:140 [1] enqueue.cc:1402 NCCL WARN Cuda failure 'an illegal memory access "
            "was encountered'"
        ),
    ),
    outranks=("launcher-exit-code",),
)

"""A rank runs out of GPU memory and ends, while the others wait for it.

The allocator says how much it wanted and how much was free. Uneven work is the usual reason why
it hits one rank only: a longer sequence, a larger expert load, the first pipeline stage, logits
on the last one, or another process on the same GPU. A program that catches the error and skips
the batch on one rank causes a hang without any death.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-out-of-memory",
    category="gpu-oom",
    kind=Kind.CAUSE,
    title="{who} ran out of GPU memory",
    when=log(
        (
            r"(?:CUDA|HIP|NPU|XPU|MPS) ?(?:backend )?out of memory\. (?:Tried to "
            r"allocate|Currently allocated)"
        ),
        r"torch\.(?:cuda\.)?OutOfMemoryError: ",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "An allocation on the GPU failed and the process ended, or skipped a step. The other "
        "ranks then wait in a collective that this one never reaches."
    ),
    confidence=0.95,
    remedies=(
        (
            "Lower batch size or sequence length, use activation checkpointing, or shard more "
            "(FSDP, ZeRO)."
        ),
        (
            "If much memory is reserved but unallocated: "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        ),
        "If code catches the error to skip a batch, it must skip it on all ranks.",
    ),
    next_steps=(
        "nvidia-smi  # on that host: does another process hold memory on that GPU?",
        "Print torch.cuda.memory_summary() on that rank, or take a memory snapshot.",
    ),
    links=("https://pytorch.org/docs/stable/notes/cuda.html#memory-management",),
    matches=(
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a "
            "total capacity of 79.15 GiB of which 1.20 GiB is free."
        ),
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 384.00 MiB (GPU 0; 15.78 GiB "
            "total capacity; 13.95 GiB already allocated; 30.00 MiB free; 14.49 GiB reserved in "
            "total by PyTorch)"
        ),
        (
            "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 10.00 GiB (GPU 1; "
            "63.98 GiB total capacity)"
        ),
    ),
    misses=(
        "WARNING: if you see CUDA out of memory, lower the batch size",
        "RuntimeError: CUDA error: out of memory",
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)

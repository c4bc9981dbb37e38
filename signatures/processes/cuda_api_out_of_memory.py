"""The CUDA driver refuses memory, outside of PyTorch's own allocator.

It comes from creating a context, a communicator or a module. On a GPU that should be empty the
reason is a process of an earlier run that still lives, several ranks on one GPU, or a GPU that
went bad: if the same host fails again on an empty GPU, suspect the hardware.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-api-out-of-memory",
    category="gpu-oom",
    kind=Kind.CAUSE,
    title="A CUDA call of {who} found no memory on the GPU",
    when=log(
        r"(?i)\bcuda error: out of memory",
        r"cudaErrorMemoryAllocation",
        r"CUDA_ERROR_OUT_OF_MEMORY",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "The driver itself, and not PyTorch's allocator, had no memory to give. At start-up that "
        "means that the GPU is already full: another process, a left-over of an earlier run, or "
        "a faulty GPU."
    ),
    confidence=0.7,
    remedies=(
        "End what holds the GPU (nvidia-smi, fuser -v /dev/nvidia*).",
        (
            "Bind every rank to its own GPU before the first CUDA call: "
            "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))."
        ),
        (
            "If the GPU is empty, take the host out and check it (dmesg for Xid, nvidia-smi -q "
            "for ECC)."
        ),
    ),
    next_steps=(
        "nvidia-smi --query-compute-apps=pid,used_memory --format=csv  # on that host",
        "dmesg -T | grep -i xid",
    ),
    links=("https://pytorch.org/docs/stable/notes/cuda.html",),
    matches=(
        "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
        "RuntimeError: CUDA error: out of memory",
        "torch.AcceleratorError: CUDA error: out of memory",
        "cuda_driver.cc:924] failed to allocate 13.83G from device: CUDA_ERROR_OUT_OF_MEMORY",
        "Search for `cudaErrorMemoryAllocation' in the CUDA documentation for more information.",
    ),
    misses=("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)

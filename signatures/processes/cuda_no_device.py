"""A rank has no GPU: none is visible, or the driver is not there.

The scheduler gave the task no GPU, CUDA_VISIBLE_DEVICES is empty or wrong, the container was
started without --gpus, a GPU fell off the bus, or device files are missing. When it is one host
only, look at that host.
"""

from whyhang.analyzer.match_log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-no-device",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} sees no GPU at all",
    when=log(
        r"No CUDA GPUs are available",
        r"CUDA error: no CUDA-capable device is detected",
        r"RuntimeError: Found no NVIDIA driver on your system",
        r"ProcessGroupNCCL is only supported with GPUs, no GPUs found",
        blames=Blames.SPEAKER,
    ),
    means=(
        "CUDA found no device in this process, so it ended before or at the first collective, "
        "and the others wait."
    ),
    confidence=0.85,
    remedies=(
        (
            "Request GPUs for the task (--gres, --gpus-per-task, nvidia.com/gpu), and check "
            "CUDA_VISIBLE_DEVICES."
        ),
        "If nvidia-smi shows fewer GPUs than the host has, take the host out.",
    ),
    next_steps=(
        "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES in that task",
        "dmesg -T | grep -i -E 'xid|nvrm'",
    ),
    links=("https://pytorch.org/docs/stable/notes/cuda.html",),
    matches=(
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: CUDA error: no CUDA-capable device is detected",
        (
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an "
            "NVIDIA GPU and installed a driver"
        ),
        "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
    ),
    misses=("AssertionError: Torch not compiled with CUDA enabled",),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)

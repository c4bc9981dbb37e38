"""The driver of a host is older than the CUDA libraries of the job need.

When all ranks say so the image does not fit the cluster; when one host only does, that host was
not updated with the others.
"""

from whyhang.analyzer.match_log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-driver-too-old",
    category="nccl-version-mismatch",
    kind=Kind.CAUSE,
    title="The NVIDIA driver on the host of {who} is too old for this PyTorch",
    when=log(
        r"The NVIDIA driver on your system is too old",
        r"CUDA driver version is insufficient for CUDA runtime version",
        blames=Blames.SPEAKER,
    ),
    means=(
        "CUDA cannot start with this driver. The process ends, or goes on without a GPU, and the "
        "other ranks wait for it."
    ),
    confidence=0.85,
    remedies=(
        "Update the driver on that host, or use a PyTorch build for an older CUDA.",
        "Keep driver and image equal on all hosts of a job.",
    ),
    next_steps=(
        "nvidia-smi; cat /proc/driver/nvidia/version on that host",
        "python -c 'import torch; print(torch.version.cuda)'",
    ),
    links=("https://docs.nvidia.com/deploy/cuda-compatibility/index.html",),
    matches=(
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). "
            "Please update your GPU driver"
        ),
        "RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
    ),
    misses=("CUDA Version: 12.4 Driver Version: 550.54",),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)

"""CUDA returns "unknown error": the driver cannot serve the process and does not say why.

At the very start it means a broken or half-updated driver, a missing kernel module, or a device
file that the container does not see. In the middle of a run the GPU has failed, and the kernel
log of the host has an Xid at the same second.
"""

from whyhang.analyzer.match_log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-unknown-error",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="CUDA fails with 'unknown error' on {who}",
    when=log(
        r"CUDA error: unknown error",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The driver could not serve this process any more, so it ended and the others wait for "
        "it. The reason stands in the kernel log of its host."
    ),
    confidence=0.5,
    remedies=(
        "Check that host with nvidia-smi and its kernel log; take it out if a GPU does not answer.",
        "After a driver update, reboot; in a container, check the device files and runtime.",
    ),
    next_steps=("dmesg -T | grep -i -E 'xid|nvrm' on that host", "nvidia-smi -L there"),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "RuntimeError: CUDA error: unknown error",
        "torch.AcceleratorError: CUDA error: unknown error",
    ),
    misses=("RuntimeError: CUDA error: unspecified launch failure",),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)

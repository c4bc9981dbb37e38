"""A kernel failed because an NVLink connection had an error that cannot be corrected.

The link between two GPUs, or between a GPU and a switch, is broken or was reset. This is
hardware.
"""

from whyhang.analyzer.match_log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-nvlink-error",
    category="nvlink-error",
    kind=Kind.CAUSE,
    title="CUDA reports an NVLink error on {who}",
    when=log(
        r"CUDA error: uncorrectable NVLink error detected during the execution",
        blames=Blames.SPEAKER,
    ),
    means=(
        "A link between GPUs failed while a kernel used it. The process is lost and the link "
        "stays suspect."
    ),
    confidence=0.93,
    remedies=(
        "Take the host out of the queue and check its links; reset all GPUs of it or reboot.",
    ),
    next_steps=(
        "nvidia-smi nvlink -e and -s on that host",
        "dmesg -T | grep -i -E 'xid|nvlink'",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
        (
            "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the "
            "execution"
        ),
    ),
    misses=("RuntimeError: CUDA error: uncorrectable ECC error encountered",),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)

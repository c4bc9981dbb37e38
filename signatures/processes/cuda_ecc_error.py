"""The memory of a GPU is damaged; the driver reports an uncorrectable ECC error.

This is hardware and no fault of the program. The next job on the same host meets the same GPU,
sometimes with another message, until it is drained.
"""

from whyhang.analyzer.match_log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-ecc-error",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="A GPU used by {who} has uncorrectable memory errors (ECC)",
    when=log(
        r"CUDA error: uncorrectable ECC error encountered",
        r"Cuda failure .*uncorrectable ECC error",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The GPU found a memory error that it cannot correct. The process is lost, and the GPU "
        "will fail again until it is reset or replaced."
    ),
    confidence=0.96,
    remedies=(
        (
            "Take the host out of the queue, reset the GPU or reboot, and have it replaced if it "
            "comes back."
        ),
        "Resume from the last checkpoint on other hosts.",
    ),
    next_steps=(
        "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT on that host",
        "dmesg -T | grep -i xid (48, 63, 64, 94, 95)",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
        (
            "node3:99:140 [1] enqueue.cc:1002 NCCL WARN Cuda failure 'uncorrectable ECC error "
            "encountered'"
        ),
    ),
    misses=("nvidia-smi: Volatile Uncorrectable ECC errors : 0",),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)

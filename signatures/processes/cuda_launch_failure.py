"""A CUDA kernel ended abnormally without a precise reason.

A wild access in a custom kernel, or hardware: the kernel log of that host holds an Xid at the
same second. The rank dies and the others wait for it.
"""

from whyhang.analyzer.match_log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-launch-failure",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A CUDA kernel failed on {who}, for a reason that the driver does not name",
    when=log(
        r"CUDA error: unspecified launch failure",
        r"CUDA error: the launch timed out and was terminated",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The CUDA context of this process is lost and it ends; the other ranks wait for it. The "
        "reason is a bad kernel or a fault of the GPU, which the kernel log tells apart."
    ),
    confidence=0.7,
    remedies=(
        (
            "Look for an Xid in the kernel log of that host; if there is one of the hardware "
            "kind, take the host out."
        ),
        "Otherwise run once with CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer.",
    ),
    next_steps=(
        "dmesg -T | grep -i xid",
        "nvidia-smi on that host",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "RuntimeError: CUDA error: unspecified launch failure",
        "RuntimeError: CUDA error: the launch timed out and was terminated",
    ),
    misses=("RuntimeError: CUDA error: an illegal memory access was encountered",),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)

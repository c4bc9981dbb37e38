"""CUDA returns "unknown error" (999).

The driver lost the device or is in a bad state: a GPU that fell off the bus (Xid 79), a driver
module that was reloaded, a container that lost its device rights, or a machine that woke from
suspend.

Alone it is weak; the kernel log decides.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-unknown-error",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="CUDA on {who} fails with 'unknown error'",
    when=log(
        r"CUDA error: unknown error",
        r"Cuda failure (?:999 )?'unknown error'",
        r"CUDA unknown error - this may be due to an incorrectly set up environment",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The driver could not serve this rank's GPU any more. The reason stands in the kernel "
        "log of its host."
    ),
    confidence=0.5,
    remedies=(
        (
            "Check the GPU with nvidia-smi, take the host out of the job if it does not "
            "answer, and reboot it."
        ),
    ),
    next_steps=(
        "dmesg -T | grep -E 'NVRM|Xid'  # on that host",
        "nvidia-smi -L  # on that host and inside the container",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "RuntimeError: CUDA error: unknown error",
        "node3:99:140 [1] init.cc:300 NCCL WARN Cuda failure 999 'unknown error'",
        (
            "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up "
            "environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start."
        ),
    ),
    misses=("RuntimeError: CUDA error: unspecified launch failure",),
    outranks=("launcher-exit-code",),
)

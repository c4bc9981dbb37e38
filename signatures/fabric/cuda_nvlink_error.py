"""NVLink failed in the middle of a kernel.

CUDA's uncorrectable NVLink error, or an invalid access of peer memory that it says may be
hardware. The link is between two GPUs (or a GPU and an NVSwitch): the speaker's end need not be
the defective one, but its host is the place.

The kernel log shows Xid 74 or 144 to 150 with the link's number.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-nvlink-error",
    category="nvlink-error",
    kind=Kind.CAUSE,
    title="CUDA reports an NVLink error on the GPU of {who}",
    when=log(
        r"uncorrectable NVLink error",
        r"Invalid access of peer GPU memory over nvlink or a hardware error",
        blames=Blames.SPEAKER,
    ),
    means="An NVLink connection of this rank's GPU failed and took the rank down.",
    confidence=0.9,
    remedies=(
        (
            "Take the host out of the job; reset its GPUs and restart the Fabric Manager with "
            "no job running."
        ),
        "Replace the board if the link errors return.",
    ),
    next_steps=(
        "nvidia-smi nvlink -e; nvidia-smi nvlink -s",
        "dmesg -T | grep -E 'Xid|SXid'  # on that host",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
        (
            "torch.AcceleratorError: CUDA error: Invalid access of peer GPU memory over nvlink "
            "or a hardware error"
        ),
    ),
    misses=("nvidia-smi nvlink -e: Link 0: Replay Errors: 0",),
    outranks=(
        "xid-nvlink",
        "launcher-exit-code",
    ),
)

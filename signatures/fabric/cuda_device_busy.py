"""CUDA says that the device is busy or unavailable.

The GPU is in exclusive-process mode and somebody else holds it: two ranks bound to one GPU, a
left-over of an earlier job. Also seen with a GPU in an error state that needs a reset.

The rank fails at start-up; the others wait for it.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-device-busy",
    category="duplicate-gpu",
    kind=Kind.CAUSE,
    title="The GPU of {who} is taken by another process",
    when=log(
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        r"all CUDA-capable devices are busy or unavailable",
        blames=Blames.SPEAKER,
    ),
    means=(
        "This rank could not get its GPU, because another process holds it exclusively or the "
        "GPU needs a reset."
    ),
    confidence=0.6,
    remedies=(
        "End left-over processes on that GPU; bind each rank to its own GPU with LOCAL_RANK.",
        "nvidia-smi -c DEFAULT lifts exclusive mode.",
    ),
    next_steps=(
        "nvidia-smi --query-gpu=index,compute_mode --format=csv",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv",
    ),
    matches=(
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
    ),
    misses=("OSError: [Errno 16] Device or resource busy",),
    outranks=("launcher-exit-code",),
)

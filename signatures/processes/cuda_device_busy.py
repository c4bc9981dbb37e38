"""A GPU refuses a second process, or any process.

With compute mode EXCLUSIVE_PROCESS only one process may use a GPU. Two ranks on one device, or
the left-over of an earlier run, is the usual reason; a GPU that needs a reset the other.
"""

from whyhang.analyzer.match_log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-device-busy",
    category="duplicate-gpu",
    kind=Kind.CAUSE,
    title="The GPU of {who} is taken or unavailable",
    when=log(
        r"all CUDA-capable devices are busy or unavailable",
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The GPU is in exclusive mode and another process uses it, often another rank that "
        "picked the same device. A GPU in a bad state gives the same message."
    ),
    confidence=0.5,
    remedies=(
        "Bind each rank to its own GPU: torch.cuda.set_device(LOCAL_RANK).",
        "End left-over processes; if the GPU stays unavailable, reset it or drain the host.",
    ),
    next_steps=("nvidia-smi -q -d COMPUTE and nvidia-smi on that host",),
    links=("https://pytorch.org/docs/stable/notes/cuda.html",),
    matches=(
        "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    ),
    misses=("RuntimeError: No CUDA GPUs are available",),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)

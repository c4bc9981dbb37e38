"""A rank selects a GPU number that the host does not have.

Often the global rank is used where LOCAL_RANK is meant, --nproc-per-node is larger than the
number of GPUs, or the scheduler shows each task one GPU only (then every task must use device
0). The others wait for this rank.
"""

from whyhang.analyzer.match_log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-invalid-device",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} asked for a GPU that does not exist there",
    when=log(
        r"CUDA error: invalid device ordinal",
        r"device >= 0 && device < num_gpus INTERNAL ASSERT FAILED",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The process selected a device number that its host does not offer, and ended. More "
        "processes than GPUs were started there, or CUDA_VISIBLE_DEVICES hides some."
    ),
    confidence=0.88,
    remedies=(
        "Use torch.cuda.set_device(int(os.environ['LOCAL_RANK'])), and not the global rank.",
        "Make --nproc-per-node equal to the number of visible GPUs.",
    ),
    next_steps=("echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L in that task",),
    links=("https://pytorch.org/docs/stable/notes/cuda.html",),
    matches=(
        "RuntimeError: CUDA error: invalid device ordinal",
        (
            "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "
            '"../aten/src/ATen/cuda/CUDAContext.cpp":49, please report a bug to PyTorch. '
            "device=1, num_gpus=1"
        ),
    ),
    misses=("RuntimeError: No CUDA GPUs are available",),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)

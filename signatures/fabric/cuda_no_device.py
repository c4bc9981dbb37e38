"""A process asks for a GPU that is not there.

More processes than GPUs on the host, CUDA_VISIBLE_DEVICES that hides them, a local rank taken
for a global one (cuda:12 on an 8-GPU host), a batch step without GPUs, or a GPU that vanished
from this host only.

It fails at start-up while the others wait in the rendezvous or in the first collective.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-no-device",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} has no GPU of its own",
    when=log(
        r"CUDA error: invalid device ordinal",
        r"Cuda failure (?:\d+ )?'invalid device ordinal'",
        r"device >= 0 && device < num_gpus INTERNAL ASSERT FAILED",
        r"No CUDA GPUs are available",
        r"no CUDA-capable device is detected",
        r"RuntimeError: Found no NVIDIA driver on your system",
        r"ProcessGroupNCCL is only supported with GPUs",
        blames=Blames.SPEAKER,
    ),
    means=(
        "This rank asked for a GPU that its process does not have and ended; the others wait "
        "for it."
    ),
    confidence=0.86,
    everywhere="not-distributed",
    remedies=(
        (
            "Use LOCAL_RANK (not RANK) for torch.cuda.set_device, and start no more processes "
            "than GPUs per host."
        ),
        (
            "Request GPUs for the task (--gpus-per-task, nvidia.com/gpu) and check "
            "CUDA_VISIBLE_DEVICES."
        ),
        "Compare nvidia-smi -L on the hosts: a GPU may be lost on one.",
    ),
    next_steps=("nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES  # in that task",),
    links=("https://pytorch.org/docs/stable/notes/cuda.html",),
    matches=(
        "RuntimeError: CUDA error: invalid device ordinal",
        "node3:99:140 [1] init.cc:300 NCCL WARN Cuda failure 'invalid device ordinal'",
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: CUDA error: no CUDA-capable device is detected",
        (
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have "
            "an NVIDIA GPU and installed a driver"
        ),
        (
            "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "
            '"../aten/src/ATen/cuda/CUDAContext.cpp":49, please report a bug to PyTorch. '
            "device=1, num_gpus=1"
        ),
        "ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
    ),
    misses=(
        "torch.cuda.device_count() == 8",
        "AssertionError: Torch not compiled with CUDA enabled",
    ),
    outranks=("launcher-exit-code",),
)

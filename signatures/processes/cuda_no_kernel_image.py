"""The installed build has no code for the GPU of a host, or not for its driver.

'no kernel image': the build was made for other GPU generations, or an extension was. 'forward
compatibility' and 'unsupported toolchain': its CUDA is newer than the driver allows. When one
host only says so, that host differs from the others.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-no-kernel-image",
    category="rank-died",
    kind=Kind.CAUSE,
    title="This PyTorch build does not fit the GPU or driver of {who}",
    when=log(
        r"CUDA error: no kernel image is available for execution on the device",
        r"forward compatibility was attempted on non supported HW",
        r"CUDA error: the provided PTX was compiled with an unsupported toolchain",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "CUDA cannot run this build's code on that GPU. The process ends at its first kernel, "
        "and the other ranks wait for it."
    ),
    confidence=0.85,
    everywhere="not-distributed",
    remedies=(
        (
            "Use a build for that GPU (torch.cuda.get_arch_list()), and rebuild extensions with "
            "its architecture (TORCH_CUDA_ARCH_LIST)."
        ),
        "Keep GPUs, driver and image equal on all hosts of a job.",
    ),
    next_steps=(
        "nvidia-smi; cat /proc/driver/nvidia/version  # on that host",
        "python -c 'import torch; print(torch.version.cuda, torch.cuda.get_arch_list())'",
    ),
    links=("https://docs.nvidia.com/deploy/cuda-compatibility/index.html",),
    matches=(
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward "
            "compatibility was attempted on non supported HW"
        ),
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    ),
    misses=("CUDA Version: 12.4 Driver Version: 550.54",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)

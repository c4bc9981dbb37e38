"""cuBLAS, cuDNN or cuSOLVER fails to allocate its handle or workspace.

These libraries allocate beside PyTorch, so they fail when PyTorch (or another process) has
taken nearly all memory. An index out of range on the GPU can show as the same message, since
the error comes late: run once with CUDA_LAUNCH_BLOCKING=1.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cublas-alloc-failed",
    category="gpu-oom",
    kind=Kind.CAUSE,
    title="cuBLAS or cuDNN on {who} could not get GPU memory",
    when=log(
        r"CUBLAS_STATUS_ALLOC_FAILED",
        r"CUDNN_STATUS_ALLOC_FAILED",
        r"CUSOLVER_STATUS_ALLOC_FAILED",
        r"CUBLAS_STATUS_NOT_INITIALIZED when calling .cublasCreate",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "A CUDA library could not allocate its workspace: the GPU is full, though not by "
        "PyTorch's own account."
    ),
    confidence=0.7,
    remedies=(
        "Leave memory free: torch.cuda.set_per_process_memory_fraction(0.95), or a smaller batch.",
        "Check with CUDA_LAUNCH_BLOCKING=1 that no device-side assert hides behind it.",
    ),
    next_steps=("nvidia-smi  # on that host",),
    links=("https://pytorch.org/docs/stable/notes/cuda.html",),
    matches=(
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
            "`cublasCreate(handle)`"
        ),
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        (
            "RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling "
            "`cusolverDnCreate(handle)`"
        ),
    ),
    misses=("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)

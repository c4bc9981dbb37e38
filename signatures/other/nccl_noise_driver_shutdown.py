"""CUDA calls at the very end of a process.

Threads and destructors that still use CUDA while the process exits get "driver shutting down".
The process was ending anyway.

Why it ended stands before.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-driver-shutdown",
    category="healthy",
    kind=Kind.NOISE,
    title="CUDA was already shutting down",
    when=log(
        r"(?:CUDA error: |Cuda failure (?:\d+ )?')driver shutting down",
        r"cudaErrorCudartUnloading",
    ),
    means="The process was on its way out when this was printed.",
    confidence=0.9,
    matches=(
        "RuntimeError: CUDA error: driver shutting down",
        "node3:99:140 [1] init.cc:2310 NCCL WARN Cuda failure 4 'driver shutting down'",
        "torch.AcceleratorError: CUDA error: cudaErrorCudartUnloading",
    ),
    misses=("RuntimeError: CUDA error: unspecified launch failure",),
)

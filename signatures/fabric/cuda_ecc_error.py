"""CUDA reports an uncorrectable ECC error.

A memory cell of this GPU is defective. The process that used it dies with this error; all other
ranks lose a peer and time out. The kernel log has Xid 48, 63, 64, 94 or 95 for it.

A job that is restarted on the same GPU fails again, not always with the same words (out of
memory, unknown error).
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-ecc-error",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="The GPU of {who} has an uncorrectable memory error",
    when=log(
        r"uncorrectable ECC error encountered",
        r"cudaErrorECCUncorrectable",
        r"CUDA_ERROR_ECC_UNCORRECTABLE",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "The memory of this rank's GPU is defective. Its process died of it and every other "
        "rank waited in vain."
    ),
    confidence=0.97,
    remedies=(
        "Take the GPU (or host) out of the job and restart from the last checkpoint.",
        (
            "Reset the GPU with no job running (nvidia-smi --gpu-reset), so that bad rows are "
            "remapped; replace it if errors return."
        ),
    ),
    next_steps=(
        (
            "nvidia-smi "
            "--query-remapped-rows=gpu_uuid,remapped_rows.uncorrectable,remapped_rows.pending,r"
            "emapped_rows.failure --format=csv"
        ),
        "dmesg -T | grep Xid  # on that host",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        (
            "node3:99:140 [1] enqueue.cc:1402 NCCL WARN Cuda failure 'uncorrectable ECC error "
            "encountered'"
        ),
        (
            "RuntimeError: transform: failed to synchronize: cudaErrorECCUncorrectable: "
            "uncorrectable ECC error encountered"
        ),
        "cuda.bindings.driver.CUDA_ERROR_ECC_UNCORRECTABLE (214)",
    ),
    misses=("GPU 3 (UUID: GPU-1a2b): volatile uncorrectable ECC errors: 0",),
    outranks=(
        "xid-ecc",
        "cuda-unknown-error",
        "cuda-launch-failure",
        "cuda-api-out-of-memory",
        "launcher-exit-code",
    ),
)

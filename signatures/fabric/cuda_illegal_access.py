"""A CUDA kernel touched memory that it must not touch, or ran into an illegal state.

An index out of range, a race with freed memory, a bug in a custom kernel, seldom bad hardware.
The error is sticky: whatever CUDA call comes next reports it, NCCL's or the watchdog's
included, so the place where it is printed is not where it happened.

The rank that prints it first is the one; the others then see a closed connection or a time-out.
The kernel log shows Xid 13 or 31 for its pid.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-illegal-access",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A CUDA kernel of {who} crashed ({reason})",
    when=log(
        r"(?P<reason>illegal memory access) was encountered",
        (
            r"(?:CUDA error: |Cuda failure (?:\d+ )?')an (?P<reason>illegal instruction) was "
            r"encountered"
        ),
        (
            r"(?:CUDA error: |Cuda failure (?:\d+ )?')(?P<reason>misaligned address|invalid "
            r"program counter|hardware stack error)"
        ),
        r"Cuda failure (?:\d+ )?'(?P<reason>device-side assert) triggered",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "A kernel on this rank's GPU crashed, which killed the rank. The others were left "
        "waiting for it."
    ),
    confidence=0.86,
    everywhere="not-distributed",
    remedies=(
        (
            "Run this rank's work with CUDA_LAUNCH_BLOCKING=1 (on its own, not across several "
            "groups) to find the kernel."
        ),
        (
            "compute-sanitizer on a small reproduction; check index ranges, tensors used on "
            "side streams, custom kernels and their versions."
        ),
        "If it moves with the GPU and not with the data, suspect the hardware.",
    ),
    next_steps=(
        "dmesg -T | grep -E 'Xid.*: (13|31),'  # on that host",
        "Read this rank's first traceback, not the last",
    ),
    links=(
        "https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html",
        "https://pytorch.org/docs/stable/notes/cuda.html",
    ),
    matches=(
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        (
            "node3:99:140 [1] enqueue.cc:1402 NCCL WARN Cuda failure 700 'an illegal memory "
            "access was encountered'"
        ),
        "torch.AcceleratorError: CUDA error: an illegal instruction was encountered",
        "RuntimeError: CUDA error: misaligned address",
        "node3:99:140 [1] enqueue.cc:1402 NCCL WARN Cuda failure 'device-side assert triggered'",
    ),
    misses=(
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    ),
    outranks=(
        "xid-application-fault",
        "nccl-proxy-operation-failed",
        "launcher-exit-code",
    ),
)

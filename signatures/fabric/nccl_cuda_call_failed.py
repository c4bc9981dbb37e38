"""A CUDA call of NCCL is refused with an error that names no fault of the GPU.

"invalid argument", "invalid resource handle" and their like: a stream or buffer of another
device, a process that was forked after CUDA was initialised, a GPU that this container may not
use, a mixed build. The rank that says so leaves the collective or its set-up with an error; the
others wait for it.

Errors that stick to the GPU (illegal access, ECC, lost device) have signatures of their own.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-cuda-call-failed",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="CUDA refuses a call of NCCL on {who}: {what}",
    when=log(
        (
            r"NCCL WARN Cuda failure (?:\d+ )?'(?P<what>invalid argument|invalid resource handle|"
            r"invalid device context|invalid device function|initialization error|"
            r"context is destroyed|mapping of buffer object failed|part or all of the requested "
            r"memory range is already mapped|named symbol not found|no kernel image is available "
            r"for execution on the device|operation not permitted)"
        ),
        blames=Blames.SPEAKER,
    ),
    means="This rank left its collective or the set-up with an error; the others wait for it.",
    confidence=0.6,
    remedies=(
        "Call torch.cuda.set_device(local_rank) before anything else that touches CUDA.",
        "Start processes with spawn instead of fork once CUDA is in use.",
        "Use one build of torch and NCCL on all ranks.",
    ),
    next_steps=(
        "Run again with NCCL_DEBUG=INFO: the file and line of the warning tell the call",
        "CUDA_LAUNCH_BLOCKING=1 shows whether an earlier kernel is at fault",
    ),
    links=("https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",),
    matches=(
        "node3:99:140 [1] enqueue.cc:1200 NCCL WARN Cuda failure 1 'invalid argument'",
        "node3:99:140 [1] misc/strongstream.cc:50 NCCL WARN Cuda failure 'invalid resource handle'",
    ),
    misses=(
        (
            "node3:99:140 [1] enqueue.cc:1200 NCCL WARN Cuda failure 700 'an illegal memory "
            "access was encountered'"
        ),
    ),
    outranks=("launcher-exit-code", "nccl-unhandled-error"),
)

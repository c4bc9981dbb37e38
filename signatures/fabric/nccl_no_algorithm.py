"""NCCL_ALGO or NCCL_PROTO excludes every algorithm that could serve a call.

The variables were set in a job script, a container image or nccl.conf, often long ago and for
another NCCL version or GPU.

Where only some ranks have them the others hang in the collective; different settings on the
ranks also hang without any message.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-no-algorithm",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="NCCL has no algorithm left for this call",
    when=log(
        r"[Nn]o algorithm/protocol available",
    ),
    means=(
        "The environment forbids every algorithm for this call, so it fails on the ranks that "
        "have these settings."
    ),
    confidence=0.9,
    remedies=(
        "Unset NCCL_ALGO and NCCL_PROTO (also in /etc/nccl.conf and ~/.nccl.conf) on all hosts.",
    ),
    next_steps=(
        "grep -E 'NCCL_(ALGO|PROTO).*set by environment' LOG  # compare those of all ranks",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node7:4711:4802 [0] enqueue.cc:1502 NCCL WARN No algorithm/protocol available for "
            "function AllReduce with datatype ncclFloat8e4m3. NCCL_ALGO was set to NVLS."
        ),
        "node7:4711:4802 [0] enqueue.cc:1200 NCCL WARN Error : no algorithm/protocol available",
    ),
    misses=("node7:4711:4802 [0] NCCL INFO NCCL_ALGO set by environment to Ring",),
    outranks=("launcher-exit-code",),
)

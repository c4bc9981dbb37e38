"""NCCL's host memory by way of cuMem is not possible here.

Containers without NUMA rights (SYS_NICE) and older drivers refuse it; NCCL says so and uses
/dev/shm instead. NCCL_CUMEM_HOST_ENABLE=0 silences it.

It hangs only if /dev/shm is then too small, which has its own message.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-cumem",
    category="healthy",
    kind=Kind.NOISE,
    title="NCCL falls back from cuMem host memory",
    when=log(
        r"cuMem host allocations do not appear to be working; falling back",
        r"NCCL INFO .*CUMEM Host is not supported",
    ),
    means="NCCL uses /dev/shm instead.",
    confidence=0.9,
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node3:99:140 [1] NCCL INFO cuMem host allocations do not appear to be working; "
            "falling back to a /dev/shm/ based implementation. This could be due to the "
            "container runtime disabling NUMA support."
        ),
        "node3:99:140 [1] NCCL INFO CUMEM Host is not supported on this system",
    ),
    misses=(
        (
            "node3:99:140 [1] misc/shmutils.cc:72 NCCL WARN Error: failed to extend "
            "/dev/shm/nccl-6rMjZu to 9637892 bytes"
        ),
    ),
)

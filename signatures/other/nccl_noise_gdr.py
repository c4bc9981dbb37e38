"""Optional fast paths that this machine does not have.

GPUDirect RDMA off, no DMA-BUF, no NVLink SHARP multicast, flush support on one architecture
only: all of it costs speed and nothing else.

A failed registration of memory (ibv_reg_mr) is another matter.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-gdr",
    category="healthy",
    kind=Kind.NOISE,
    title="NCCL without GPUDirect or multicast",
    when=log(
        r"GDR Flush only supported on x86_64",
        r"GPU Direct RDMA Disabled for",
        r"NVLS multicast support is not available",
        r"NCCL INFO .*nv_peer_mem.*not (?:loaded|found)",
    ),
    means="These features are off; the job runs without them.",
    confidence=0.9,
    matches=(
        "node3:99:140 [1] NCCL INFO NET: GDR Flush only supported on x86_64",
        "node3:99:140 [1] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
        "node3:99:140 [1] NCCL INFO NVLS multicast support is not available on dev 0",
        (
            "node3:99:140 [1] NCCL INFO NET/IB : GPU Direct RDMA not available: nv_peer_mem "
            "not loaded"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_reg_mr failed with "
            "error Bad address"
        ),
    ),
)

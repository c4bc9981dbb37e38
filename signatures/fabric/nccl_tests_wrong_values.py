"""nccl-tests found wrong results: data was damaged on its way between GPUs.

A transport hands over wrong data without an error: peer-to-peer over PCIe with an IOMMU or ACS
between the GPUs, or a faulty link, switch or GPU.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-tests-wrong-values",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    title="nccl-tests got {count} wrong values",
    when=log(r"Out of bounds values : (?P<count>[1-9]\d*) FAILED"),
    means=(
        "The collectives came to an end with wrong data. The path between two GPUs damages it; "
        "most often peer-to-peer over PCIe through an IOMMU or with ACS on."
    ),
    confidence=0.55,
    remedies=(
        "Switch the IOMMU and ACS off for the GPUs, or stay off the path: NCCL_P2P_DISABLE=1.",
        "If it remains, test GPU by GPU and link by link to find a faulty one.",
    ),
    next_steps=(
        "NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 in turn: which run is clean?",
        "Run simpleP2P and p2pBandwidthLatencyTest of the CUDA samples on that host.",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=("# Out of bounds values : 12 FAILED", "# Out of bounds values : 4096 FAILED"),
    misses=("# Out of bounds values : 0 OK",),
)

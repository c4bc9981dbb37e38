"""The driver refuses a memory operation: "operation not supported" (801).

NCCL's virtual-memory (cuMem), multicast (NVLS) or DMA-BUF calls do not work on this host:
virtual machines, MIG, confidential computing, an old driver, or a container without the needed
capability.

The settings below turn the features off one at a time.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-operation-not-supported",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    title="{who}'s driver does not support a memory operation that NCCL uses",
    when=log(
        r"Cuda failure (?:801 )?'operation not supported'",
        blames=Blames.SPEAKER,
    ),
    means="A feature that NCCL uses by default does not work on this host, so set-up fails there.",
    confidence=0.6,
    remedies=(
        (
            "Try NCCL_CUMEM_ENABLE=0, then NCCL_NVLS_ENABLE=0, then NCCL_CUMEM_HOST_ENABLE=0, "
            "one at a time."
        ),
        "Upgrade the driver.",
    ),
    next_steps=("Run again with NCCL_DEBUG=INFO: the file in the WARN line tells the feature",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node3:99:140 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 801 'operation not "
            "supported'"
        ),
        "node3:99:140 [1] misc/cudawrap.cc:40 NCCL WARN Cuda failure 'operation not supported'",
    ),
    misses=("node3:99:140 [1] NCCL INFO NVLS multicast support is not available on dev 0",),
    outranks=("launcher-exit-code",),
)

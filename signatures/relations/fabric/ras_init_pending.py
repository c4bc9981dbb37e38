"""A communicator is still being set up on ranks that NCCL's health network lists.

A communicator is listed once all its ranks have met, so nobody is missing: what takes time, or
hangs, is the search of the topology and the connections (P2P, shared memory, InfiniBand, NVLS).

The last INFO line of each rank's NCCL log says which.
"""

from whyhang.analyzer.match import Kind, Signature, ras

SIGNATURE = Signature(
    id="ras-init-pending",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} still sets up communicator {comm} (NCCL RAS status INIT)",
    when=ras("starting", named=False),
    means=(
        "All ranks of the communicator have met, and its connections are not done. If this "
        "lasts, a transport between two of its ranks hangs."
    ),
    confidence="possible",
    remedies=(
        (
            "Try one switch at a time: NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_IB_DISABLE=1, "
            "NCCL_NVLS_ENABLE=0, NCCL_CUMEM_ENABLE=0."
        ),
    ),
    next_steps=(
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,P2P,SHM,NVLS: the last line of each rank",
        "whyhang --native always PID",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
)

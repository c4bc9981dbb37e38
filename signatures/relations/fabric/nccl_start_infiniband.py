"""Ranks went silent while NCCL connected hosts over InfiniBand or RoCE.

The last lines say "via NET/IB": queue pairs are made on both sides. A port that is down, a wrong
GID or VLAN, subnets that do not route, memory that may not be locked or the path from the GPU to
the card (GPUDirect) keep them from coming up.

With InfiniBand off the same job starts over sockets: that proves it.
"""

from whyhang.analyzer.match import Kind, Signature, nccl_start

SIGNATURE = Signature(
    id="nccl-start-infiniband",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    level="wait",
    title="NCCL hangs while it connects hosts over InfiniBand or RoCE",
    when=nccl_start("connecting", via="NET/IB"),
    means=(
        "The last lines of the ranks tell of connections over InfiniBand. They do not come about."
    ),
    confidence="possible",
    remedies=(
        "Bring the port up, or name the cards that work (NCCL_IB_HCA; for RoCE NCCL_IB_GID_INDEX).",
    ),
    next_steps=(
        "Run again with NCCL_IB_DISABLE=1: it starts if InfiniBand is it.",
        "Run again with NCCL_NET_GDR_LEVEL=LOC: it starts if only GPUDirect is it.",
        "ibstat; rdma link; ib_write_bw  # between two of the hosts",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    gives_way=True,
    explains=("stuck-together",),
)

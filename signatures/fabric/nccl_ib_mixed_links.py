"""Cards of different link types are to be connected or merged.

Hosts with both InfiniBand and RoCE cards, or hosts that list their cards in different order:
rank A picks an InfiniBand card, rank B a RoCE one.

NCCL 2.26 and later say so; before, the connection fails in ibv_modify_qp.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-mixed-links",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="NCCL tries to connect an InfiniBand with an Ethernet (RoCE) card",
    when=log(
        r"NET/IB\w* ?: ?Attempted to (?:connect|merge) incompatible devices",
        r"Remote \S+ device is incompatible with the local",
    ),
    means="The cards chosen on two hosts are of different kinds and cannot talk to each other.",
    confidence=0.9,
    remedies=(
        (
            "Set NCCL_IB_HCA on all hosts so that only cards of one kind are used (for example "
            "NCCL_IB_HCA==mlx5_0,mlx5_1)."
        ),
    ),
    next_steps=("grep 'NET/IB : Using' LOG  # of all hosts: each card ends in /IB or /RoCE",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca",),
    matches=(
        (
            "node3:99:140 [1] transport/net_ib.cc:900 NCCL WARN NET/IB : Attempted to connect "
            "incompatible devices: [0]mlx5_0:1/IB and [0]mlx5_4:1/RoCE. Try selecting NICs of "
            "only one link type using NCCL_IB_HCA"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:1500 NCCL WARN NET/IB : Remote IB device is "
            "incompatible with the local [2]mlx5_2:1/RoCE."
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] NCCL INFO NET/IB : There are mismatched physical devices between "
            "local (mlx5_0) and remote (mlx5_1)."
        ),
    ),
    outranks=("launcher-exit-code",),
)

"""The network card sent and got no answer (work completion 12, vendor error 129).

The peer's process or host is gone or frozen, a link or switch port is down, the fabric is
congested, or with RoCE the GID index or route is wrong. NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT
say how long it tries.

Count over all ranks: all complain about one peer's address: that host. One rank complains about
all: its own card. Only pairs over one rail: a switch or cable.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-retry-exceeded",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="InfiniBand gave up sending to a peer (retry exceeded)",
    when=log(
        (
            r"NET/IB\w* ?: ?Got completion (?:from peer \S+ )?with (?:error |"
            r"status=)(?:IBV_WC_[A-Z_]+\()?12\b"
        ),
    ),
    means=(
        "Packets to a peer were not acknowledged, so the connection broke. Either the peer is "
        "gone or the path to it is."
    ),
    confidence=0.78,
    remedies=(
        (
            "Check the host behind the peer address and the links of both cards; take the host "
            "out of the job if in doubt."
        ),
        "On RoCE check NCCL_IB_GID_INDEX, MTU, PFC and ECN.",
        "If the fabric is merely congested, raise NCCL_IB_TIMEOUT (22) and NCCL_IB_RETRY_CNT.",
    ),
    next_steps=(
        "Count the peer addresses in these lines over all ranks",
        "ibstat; rdma link; ethtool -S DEVICE | grep -E 'link_down|symbol|discard'  # both hosts",
        "dmesg -T | grep mlx5  # on both hosts",
    ),
    links=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-timeout",
        "https://github.com/NVIDIA/nccl/issues/1405",
    ),
    matches=(
        (
            "node3:99:140 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with error 12, opcode 32593, len 0, vendor err 129 (Recv)"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:2110 NCCL WARN NET/IB: Got completion from "
            "peer 10.1.0.4<43210> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid "
            "::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_0"
        ),
        (
            "node3:99:140 [1] transport/net_ib/p2p.cc:900 (ncclIbTest) NCCL WARN NET/IB: Got "
            "completion from peer 10.1.0.4<43210> with status=IBV_WC_RETRY_EXC_ERR(12) "
            "opcode=IBV_WC_SEND(0) vendor_err=129 (Send) hca mlx5_0"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:780 NCCL WARN NET/IB : Got completion with "
            "error 12, opcode 1, len 4096, vendor err 129"
        ),
        (
            "node3:99:140 [1] p2p_plugin.c:231 NCCL WARN NET/IBP:Got completion from peer "
            "10.1.0.4<43210> with status=12 opcode=32698 len=0 vendor err 129 (Send)"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with error 5, opcode 48, len 0, vendor err 249 (Recv)"
        ),
    ),
    outranks=("launcher-exit-code",),
)

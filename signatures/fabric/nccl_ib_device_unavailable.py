"""A process cannot open or query a network card.

/dev/infiniband is missing in the container or not readable for this user, the card is in an
error state, or no IP interface exists for the out-of-band connection.

NCCL then goes on with fewer cards or with sockets, so that ranks disagree about the network: a
silent hang in the first collective.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-device-unavailable",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="{who} cannot open its InfiniBand devices",
    when=log(
        r"NET/IB\w* ?: ?Unable to (?:open|query) (?:device|port)",
        r"NET/IB\w* ?: ?No IP interface found",
        r"could not open \S+ \(.*errno \d+\)\. Fix device access or restrict NCCL_IB_HCA",
        blames=Blames.SPEAKER,
    ),
    means="This rank cannot use a network card that its peers count on.",
    confidence=0.8,
    remedies=(
        (
            "Pass /dev/infiniband into the container (--device, or the RDMA device plugin) "
            "with read and write rights."
        ),
        "Or restrict NCCL_IB_HCA to cards that every rank can open.",
    ),
    next_steps=(
        "Run again with NCCL_IB_DISABLE=1: it works if this is it.",
        "ls -l /dev/infiniband; ibv_devinfo  # inside the container of this rank",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        "node3:99:140 [1] transport/net_ib.cc:400 NCCL WARN NET/IB : Unable to open device mlx5_2",
        "node3:99:140 [1] transport/net_ib.cc:418 NCCL WARN NET/IB : Unable to query port_num 1",
        "node3:99:140 [1] transport/net_ib.cc:380 NCCL WARN NET/IB : No IP interface found.",
        (
            "node3:99:140 [1] transport/net_ib.cc:402 NCCL WARN NET/IB : could not open mlx5_2 "
            "(Permission denied, errno 13). Fix device access or restrict NCCL_IB_HCA"
        ),
    ),
    misses=("node3:99:140 [1] NCCL INFO NET/IB : No device found.",),
    outranks=("launcher-exit-code",),
)

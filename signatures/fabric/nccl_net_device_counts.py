"""A network card is missing or down on some host.

NCCL 2.30 compares how many local network devices each rank sees and stops when they differ
(NCCL_IGNORE_NET_MISMATCH=1 goes on). Before 2.30 the same fault hangs without a word in the
first collectives: channels of one side have no partner.

On rank 0 the INFO lines "Rank N has K local Net devices (max M)" name the ranks that see fewer.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-net-device-counts",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="The hosts do not have the same number of usable network devices",
    when=log(
        (
            r"Detected mixed local (?:Net|CollNet) device counts across ranks \(min \d+, max "
            r"\d+\)\. Set NCCL_IGNORE"
        ),
    ),
    means=(
        "Some ranks see fewer network cards than others, so their channels would not pair up. "
        "A card is down, filtered or not visible in the container of those hosts."
    ),
    confidence=0.84,
    remedies=(
        "Bring the missing card up, or take the host out of the job.",
        "Select cards that every host has with NCCL_IB_HCA or NCCL_SOCKET_IFNAME.",
    ),
    next_steps=(
        "grep 'local Net devices' LOG  # rank 0's NCCL INFO log",
        "Compare ibstat, rdma link and ls /dev/infiniband on the hosts",
        "Compare the 'NET/IB : Using [0]...' lines of all hosts",
    ),
    links=(
        "https://github.com/NVIDIA/nccl/issues/2428",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    ),
    matches=(
        (
            "node1:100:200 [0] init.cc:1594 NCCL WARN Detected mixed local Net device counts "
            "across ranks (min 7, max 8). Set NCCL_IGNORE_NET_MISMATCH=1 to continue."
        ),
        (
            "Detected mixed local CollNet device counts across ranks (min 0, max 4). Set "
            "NCCL_IGNORE_COLLNET_MISMATCH=1 to continue."
        ),
    ),
    misses=(
        (
            "node1:100:200 [0] NCCL INFO Detected mixed local Net device counts across ranks "
            "(min 1, max 2). Ignoring due to NCCL_IGNORE_NET_MISMATCH."
        ),
        "node1:100:200 [0] NCCL INFO Local Net device counts across ranks: min 8 max 8",
    ),
    outranks=("launcher-exit-code",),
)

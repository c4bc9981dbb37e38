"""NCCL names a rank that sees fewer network devices than the others.

Rank 0 of NCCL 2.30 prints this before it stops with "Detected mixed local Net device counts",
and also when told to ignore the difference. The rank is a number of the communicator, global
for the world communicator.

The host of that rank has a card that is down, filtered out by NCCL_IB_HCA, or not passed into
the container.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-rank-lacks-net-device",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="Rank {rank} sees {count} network devices, others {most}",
    when=log(
        (
            r"Rank (?P<rank>\d+) has (?P<count>\d+) local (?:Net|CollNet) devices \(max "
            r"(?P<most>\d+)\)"
        ),
        blames=Blames.NAMED,
    ),
    means=(
        "This rank cannot use a network card that its peers can: channels over that card have "
        "no partner on its side."
    ),
    confidence=0.85,
    remedies=(
        (
            "Repair or re-seat the card or pass it into the container; until then take the "
            "host out of the job."
        ),
        "Select cards that every host has with NCCL_IB_HCA.",
    ),
    next_steps=("ibstat; rdma link; ls -l /dev/infiniband  # on that rank's host",),
    links=("https://github.com/NVIDIA/nccl/issues/2428",),
    matches=(
        "node1:100:200 [0] NCCL INFO Rank 12 has 7 local Net devices (max 8).",
        "node1:100:200 [0] NCCL INFO Rank 3 has 0 local CollNet devices (max 4).",
    ),
    misses=("node1:100:200 [0] NCCL INFO Local Net device counts across ranks: min 7 max 8",),
    outranks=(
        "nccl-net-device-counts",
        "launcher-exit-code",
    ),
)

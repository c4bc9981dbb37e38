"""The GID table of a card changed.

On RoCE, GIDs follow the IP addresses of the interface: an address was added, removed or renewed
(DHCP, container network, VLAN). Connections that were set up with the old index may stop.

Harmless at start-up; suspicious when transfers fail soon after.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-gid-changed",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="The address table of a RoCE card changed while the job ran",
    when=log(
        r"NET/IB\w* ?: ?\S+ GID table changed",
        r"NET/IB\w* ?: ?.*Got (?:non-fatal )?async (?:error )?event ?: ?GID table change",
    ),
    means=(
        "The addresses of a network card changed under the job, which can break its open RDMA "
        "connections."
    ),
    confidence=0.4,
    remedies=(
        "Give the RDMA interfaces fixed addresses and keep other software from touching them.",
    ),
    next_steps=(
        ("show_gids; journalctl -u NetworkManager  # did DHCP or a container change an address?"),
    ),
    matches=(
        "node3:99:140 [1] transport/net_ib.cc:130 NCCL WARN NET/IB : mlx5_3:1 GID table changed",
        (
            "node3:99:140 [1] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : GID "
            "table change"
        ),
    ),
    misses=("node3:99:140 [1] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.",),
)

"""The kernel saw a network link go down.

A cable, transceiver, switch port, or someone at the switch. RDMA connections over the port
break after their retries, TCP connections hang until they time out; ranks of that host and
their peers stop.

At boot, or with an "up" right after, it is ordinary: compare the time with that of the hang.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-link-down",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="A network link of a host went down",
    when=log(
        r"mlx[45]_core \S+:? (?:\S+: )?(?:Port: \d+ )?Link DOWN",
        r"mlx[45]_core \S+:? (?:\S+: )?Link down",
        r"\b(?:bnxt_en|ice|i40e|ixgbe|ena|ionic) \S+ \S+: NIC Link is Down",
        r"\bbond\d+: .*link status definitely down for interface",
    ),
    means="A network port of this host lost its link, so its traffic stopped.",
    confidence=0.81,
    remedies=(
        "Check cable, transceiver and switch port; take the host out of the job until then.",
    ),
    next_steps=(
        "ibstat; rdma link; ip -br link; ethtool -S INTERFACE | grep link_down",
        "dmesg -T | grep -i 'link'  # did it come up again?",
    ),
    matches=(
        "[ 991.2] mlx5_core 0000:0c:00.0: Port: 1 Link DOWN",
        "[ 991.2] mlx5_core 0000:0c:00.0 ens3f0np0: Link down",
        (
            "[ 991.2] bond0: (slave ens1f0): link status definitely down for interface ens1f0, "
            "disabling it"
        ),
        "[ 991.2] bnxt_en 0000:17:00.0 ens1f0np0: NIC Link is Down",
    ),
    misses=(
        "[ 992.2] mlx5_core 0000:0c:00.0 ens3f0np0: Link up",
        "[ 992.2] mlx5_core 0000:0c:00.0: Port: 1 Link ACTIVE",
    ),
    outranks=(
        "nccl-ib-port-event",
        "nccl-ib-retry-exceeded",
        "nccl-network-cut",
        "launcher-exit-code",
    ),
)

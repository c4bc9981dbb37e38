"""The libfabric (AWS EFA) plugin reports a failed transfer or no usable provider.

A completion with "unreachable remote" means that the peer's process or host is gone; with no
eligible provider the EFA devices are missing in the container or the security group does not
allow all traffic within itself.

Where the peer is named as unreachable, look for a rank that ended first.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ofi-completion-error",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="A transfer over EFA or libfabric failed",
    when=log(
        r"NET/OFI Request \S+ completed with error",
        (
            r"NET/OFI (?:Could not find any optimal provider|No eligible providers were found|"
            r"Couldn't open (?:a )?(?:fabric|CQ|domain|endpoint|AV)|"
            r"Creating new endpoint for domain \S+ failed|"
            r"Unable to insert remote address into address vector)"
        ),
        r"NET/OFI Unable to find a protocol that worked",
    ),
    means="The EFA network between hosts failed, or is not usable on this host.",
    confidence=0.65,
    remedies=(
        "Check that the host behind the peer is alive.",
        "Pass the EFA devices into the container and allow all traffic within the security group.",
    ),
    next_steps=(
        "fi_info -p efa  # on every host",
        "dmesg -T | grep efa",
    ),
    matches=(
        (
            "node3:99:140 [1] nccl_ofi_rdma.c:900 NCCL WARN NET/OFI Request 0x7f1c completed "
            "with error. RC: 107. Error: 15 (Unreachable remote). Completed length: 0"
        ),
        (
            "node3:99:140 [1] nccl_net_ofi_init:1500 NCCL WARN NET/OFI Unable to find a "
            "protocol that worked.  Failing initialization"
        ),
        (
            "node3:99:140 [1] nccl_ofi_net.c:310 NCCL WARN NET/OFI Could not find any optimal "
            "provider"
        ),
        (
            "node3:99:140 [7] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. "
            "RC: -22, ERROR: Invalid argument"
        ),
        (
            "node3:99:140 [0] nccl_net_ofi_domain_get_ep:969 NCCL WARN NET/OFI Creating new "
            "endpoint for domain 0x7f9befa99380 failed: Invalid argument"
        ),
    ),
    misses=("node3:99:140 [1] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)",),
    outranks=("launcher-exit-code",),
)

"""lspci shows ACS source validation switched on at a bridge.

ACS sends traffic between GPUs up through the root complex. On bare metal it makes peer-to-peer
slow, or hangs the first collective with all GPUs busy and not a word from NCCL; RCCL warns when
iommu=pt is missing.

Alone it only says that this is possible: virtual machines need ACS. It speaks when all ranks
have arrived in the first collective and none goes on.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="pcie-acs-enabled",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    title="PCIe access control (ACS) redirects GPU traffic",
    when=log(
        r"ACSCtl:\s*SrcValid\+",
        r'Missing "iommu=pt" from kernel command line',
    ),
    means="GPU traffic of this host is redirected, which can stop direct transfers between GPUs.",
    confidence=0.4,
    remedies=(
        (
            "On bare metal switch ACS off at the PCIe bridges (setpci, or in the BIOS) and "
            "boot with iommu=pt."
        ),
        "NCCL_P2P_DISABLE=1 to prove it.",
    ),
    next_steps=(
        "Run again with NCCL_P2P_DISABLE=1",
        "Run p2pBandwidthLatencyTest (CUDA samples): wrong data or a hang confirms",
    ),
    links=(
        (
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#pci"
            "-access-control-services-acs"
        ),
        "https://github.com/NVIDIA/nccl/issues/667",
    ),
    matches=(
        (
            "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- "
            "DirectTrans-"
        ),
        (
            'node1:40:77 [0] NCCL WARN Missing "iommu=pt" from kernel command line which can '
            "lead to system instablity or hang!"
        ),
    ),
    misses=(
        (
            "\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- "
            "DirectTrans-"
        ),
    ),
)

"""The IOMMU stopped a direct transfer between devices.

With an IOMMU that translates (or PCIe ACS that redirects), GPU-to-GPU and card-to-GPU transfers
are blocked or go astray: NCCL's first all-reduce then hangs with all GPUs at 100 % and no
message, while the kernel logs the fault.

NCCL_P2P_DISABLE=1 cures it.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="iommu-fault",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    title="The IOMMU blocked a device's memory access",
    when=log(
        r"AMD-Vi: Event logged \[IO_PAGE_FAULT",
        r"AMD-Vi: .*IO_PAGE_FAULT device=",
        r"DMAR: \[DMA (?:Read|Write)\b",
        r"arm-smmu-v3 \S+: event 0x\w+ received",
    ),
    means=(
        "The IOMMU of this host blocks transfers between its devices, so direct GPU transfers "
        "never arrive."
    ),
    confidence=0.7,
    remedies=(
        "Boot with iommu=pt (or IOMMU off in the BIOS) and disable PCIe ACS on bare metal.",
        "NCCL_P2P_DISABLE=1 (and NCCL_NET_GDR_LEVEL=LOC) to get going.",
    ),
    next_steps=(
        "Run again with NCCL_P2P_DISABLE=1: it works if this is it.",
        "sudo lspci -vvv | grep ACSCtl  # SrcValid+ means that ACS redirects",
        "cat /proc/cmdline",
    ),
    links=(
        (
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#pci"
            "-access-control-services-acs"
        ),
        "https://github.com/NVIDIA/nccl/issues/257",
    ),
    matches=(
        (
            "[ 1234.5] nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x003c "
            "address=0xffffc1a0 flags=0x0030]"
        ),
        (
            "[ 1234.5] DMAR: [DMA Write NO_PASID] Request device [3b:00.0] fault addr "
            "0xe0000000 [fault reason 0x05] PTE Write access is not set"
        ),
        (
            "[ 1234.5] AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x003c "
            "address=0xffffc1a0 flags=0x0030]"
        ),
        "[ 1234.5] arm-smmu-v3 arm-smmu-v3.5.auto: event 0x10 received:",
    ),
    misses=(
        "[    1.2] AMD-Vi: Interrupt remapping enabled",
        "[    1.2] DMAR: IOMMU enabled",
    ),
    outranks=("launcher-exit-code",),
)

"""Ranks went silent while NCCL connected GPUs of one host directly (P2P).

The last lines say "via P2P": memory of one GPU is mapped into another, through NVLink or PCIe.
PCIe access control (ACS), an IOMMU, a virtual machine, separate containers or a broken link make
that hang or fail, mostly without a message.

With P2P off the same job starts, only slower: that proves it.
"""

from whyhang.analyzer.match import Kind, Signature, setting_up

SIGNATURE = Signature(
    id="nccl-setup-p2p",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    title="NCCL hangs while it connects GPUs of one host directly (P2P)",
    when=setting_up("connecting", via="P2P"),
    means=(
        "The last lines of the ranks tell of connections from GPU to GPU within a host. "
        "They do not come about."
    ),
    confidence=0.6,
    remedies=(
        "Switch ACS off in the BIOS or on the PCIe switches; boot with iommu=pt.",
        "Until then run with NCCL_P2P_DISABLE=1.",
    ),
    next_steps=(
        "Run again with NCCL_P2P_DISABLE=1: it starts if this is it.",
        "lspci -vvv | grep ACSCtl: SrcValid+ means that ACS redirects; nvidia-smi topo -p2p r",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    outranks=("stuck-together",),
)

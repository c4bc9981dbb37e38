"""All ranks stand in connecting NCCL's channels, and the last ones go from GPU to GPU directly.

"via P2P/IPC" and nothing behind it: the GPUs of one host cannot write into each other's memory.
PCI access control (ACS, an IOMMU, a virtual machine that passes devices through) sends such
traffic astray; nothing fails, it never arrives.
"""

from whyhang.analyzer.match import Kind, Signature, nccl_start

SIGNATURE = Signature(
    id="nccl-start-peer-to-peer",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    level="wait",
    title="All ranks seen stand in connecting NCCL's channels from GPU to GPU (via {via})",
    when=nccl_start("connecting", via="P2P"),
    means="{who} {does}; the channels that each has named last go via {via}.",
    confidence="possible",
    remedies=(
        "Try NCCL_P2P_DISABLE=1: if the job then runs, peer-to-peer access is what fails.",
        "Turn ACS off on the PCI bridges and the IOMMU to pass-through, or ask who runs the host.",
    ),
    next_steps=(
        "Run again with NCCL_P2P_DISABLE=1: it starts if this is it.",
        "sudo lspci -vvv | grep -i acsctl; nvidia-smi topo -p2p r",
    ),
    gives_way=True,
    explains=("stuck-together",),
)

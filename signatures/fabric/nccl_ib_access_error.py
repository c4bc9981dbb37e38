"""A network card was not allowed to read or write the memory of a transfer.

Local protection (4), local access (8), remote access (10) or remote operation (11) errors:
GPUDirect RDMA between card and GPU does not work (nvidia-peermem, DMA-BUF, PCIe ACS or IOMMU),
memory was freed while in use, or the wrong device was chosen (NVSwitch's own or a management
card).

If NCCL_NET_GDR_LEVEL=LOC cures it, it is the path between card and GPU.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-access-error",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="An RDMA transfer was refused access to memory (status {status})",
    when=log(
        (
            r"NET/IB\w* ?: ?Got completion (?:from peer \S+ )?with (?:error |"
            r"status=)(?:IBV_WC_[A-Z_]+\()?(?P<status>4|8|10|11)\b"
        ),
    ),
    means=(
        "The network card could not access the memory of a transfer, mostly because GPUDirect "
        "RDMA is broken on one of the hosts."
    ),
    confidence=0.75,
    remedies=(
        "Set NCCL_NET_GDR_LEVEL=LOC to confirm and to get going.",
        "Load nvidia-peermem (or enable DMA-BUF), disable PCIe ACS, set iommu=pt.",
        "Choose the right cards with NCCL_IB_HCA.",
    ),
    next_steps=(
        "lsmod | grep peermem",
        "sudo lspci -vvv | grep ACSCtl  # SrcValid+ means that ACS redirects",
        "grep 'NET/IB : Using' LOG  # in the NCCL INFO log",
    ),
    links=(
        "https://github.com/NVIDIA/nccl/issues/1737",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    matches=(
        (
            "node3:99:140 [1] transport/net_ib.cc:2110 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with status=4 opcode=0 len=0 vendor err 81 (Send)"
        ),
        (
            "node3:99:140 [1] transport/net_ib/p2p.cc:900 (ncclIbTest) NCCL WARN NET/IB: Got "
            "completion from peer 10.1.0.4<43210> with status=IBV_WC_REM_ACCESS_ERR(10) "
            "opcode=IBV_WC_RDMA_WRITE(1) vendor_err=136 hca mlx5_0"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with error 12, opcode 1, len 4, vendor err 129 (Send)"
        ),
    ),
    outranks=("launcher-exit-code",),
)

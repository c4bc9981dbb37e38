"""Registering GPU memory with the network card fails.

GPUDirect RDMA needs nvidia-peermem or DMA-BUF support of kernel and driver. "Bad address" means
that the card's driver does not know GPU addresses: the module is not loaded or was built for
another kernel or OFED.

It hits hosts that were updated or rebooted without the module.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-gdr-registration",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="GPU memory of {who} cannot be registered with the network card",
    when=log(
        (
            r"Call to ibv_reg_(?:mr|mr_iova2?|dmabuf_mr)\w* failed.*(?:Bad address|Operation "
            r"not supported|Invalid argument|Bad file descriptor)"
        ),
        blames=Blames.SPEAKER,
    ),
    means=(
        "The network card of this host cannot use GPU memory directly, and NCCL's set-up fails "
        "on it."
    ),
    confidence=0.85,
    remedies=(
        "modprobe nvidia-peermem on the host (or use a driver and kernel with DMA-BUF).",
        "NCCL_NET_GDR_LEVEL=LOC avoids GPUDirect until then.",
    ),
    next_steps=(
        "lsmod | grep peermem  # on a failing and on a working host",
        "grep -E 'GPU Direct RDMA|DMA-BUF' LOG  # in the NCCL INFO log",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        (
            "node3:99:140 [1] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_reg_mr failed with "
            "error Bad address"
        ),
        (
            "node3:99:140 [1] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_reg_dmabuf_mr failed "
            "with error Operation not supported"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_reg_mr failed with "
            "error Cannot allocate memory"
        ),
        "node3:99:140 [1] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
    ),
    outranks=(
        "nccl-proxy-operation-failed",
        "launcher-exit-code",
    ),
)

"""A queue pair or completion queue went into error.

"local access violation" on this host is the other side of a remote access error (status 10) on
the peer: the memory that the peer wrote to was not accessible, mostly a GPUDirect RDMA problem
or the wrong card.

The connection is lost; both ends then report flushed requests.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-queue-event",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="A queue pair failed in a network card",
    when=log(
        r"NET/IB\w* ?: ?.*async fatal event on (?:QP|CQ|SRQ)",
    ),
    means="A connection broke inside a network card, and the transfers over it fail on both ends.",
    confidence=0.6,
    remedies=(
        "Set NCCL_NET_GDR_LEVEL=LOC to see whether GPUDirect RDMA is the reason.",
        "Choose the right cards with NCCL_IB_HCA.",
    ),
    next_steps=(
        "grep 'NET/IB : Using' LOG  # in the NCCL INFO log",
        "lsmod | grep peermem; dmesg -T | grep mlx5",
    ),
    matches=(
        (
            "node3:99:140 [1] transport/net_ib.cc:100 NCCL WARN NET/IB : mlx5_3:1 async fatal "
            "event on QP (0x7f01): local access violation work queue error"
        ),
        (
            "node3:99:140 [1] transport/net_ib/common.cc:187 NCCL WARN NET/IB : mlx5_0:1 async "
            "fatal event on CQ (0x7f01): CQ error"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] transport/net_ib.cc:100 NCCL WARN NET/IB : mlx5_3:1 async fatal "
            "event: local catastrophic error"
        ),
    ),
    outranks=("launcher-exit-code",),
)

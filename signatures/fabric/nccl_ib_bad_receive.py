"""The sender finds nonsense in what the receiver posted.

The ranks disagree about the transfer (sizes, collectives, protocol) or memory was overwritten.
The sizes in the line often show which.

If the calls of the ranks do agree, suspect the NIC's firmware or GPUDirect.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-bad-receive",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="A receive over InfiniBand was posted with impossible values",
    when=log(
        r"posted incorrect receive info: size -?\d+ addr \w+ rkeys",
    ),
    means=(
        "The two ends of a transfer do not agree: different calls on the ranks, or corrupted "
        "transfer state."
    ),
    confidence=0.6,
    remedies=(
        "Compare shapes, dtypes and the order of collectives of the ranks first.",
        "Then try NCCL_NET_GDR_LEVEL=LOC, and update NIC firmware and NCCL.",
    ),
    next_steps=("Run again with TORCH_DISTRIBUTED_DEBUG=DETAIL",),
    matches=(
        (
            "node3:99:140 [1] transport/net_ib.cc:1900 NCCL WARN NET/IB : req 0/2 tag 7f peer "
            "10.1.0.4<43210> posted incorrect receive info: size -12 addr 0 rkeys[0]=0"
        ),
        (
            "node3:99:140 [1] transport/net_ib/p2p.cc:410 (ncclIbMultiSend) NCCL WARN NET/IB : "
            "req 1/2 tag 3 peer 10.1.0.4<43210> posted incorrect receive info: size 0 addr "
            "7f00 rkeys[0]=1a2b"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] transport/net_ib.cc:1200 NCCL WARN NET/IB : req 0/1 tag 5 peer "
            "10.1.0.4<43210> collective mismatch error, local size 4096 remote size 8192"
        ),
    ),
    outranks=("launcher-exit-code",),
)

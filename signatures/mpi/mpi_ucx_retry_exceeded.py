"""InfiniBand or RoCE did not get an answer from the peer.

The peer's host or process is gone or frozen, a link or switch is down, or RoCE is not lossless
or uses the wrong GID. It is UCX's form of NCCL's status 12.

The line names the local card, not the peer that is at fault.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-ucx-retry-exceeded",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="UCX gave up sending over {device}",
    when=log(
        r"Transport retry count exceeded on (?P<device>\S+)",
    ),
    means=(
        "Packets to a peer were not acknowledged, so the connection broke: the peer is gone or "
        "the path to it is."
    ),
    confidence=0.87,
    remedies=(
        "Look for a rank or node that ended first; check links and switch ports of both hosts.",
        (
            "On RoCE check UCX_IB_GID_INDEX, MTU, PFC and ECN; raise UCX_RC_TIMEOUT only "
            "against congestion."
        ),
    ),
    next_steps=("ibstat; rdma link; dmesg -T | grep mlx5  # on the hosts",),
    matches=(
        (
            "[n0042:20133:0:20133] ib_mlx5_log.c:171  Transport retry count exceeded on "
            "mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)"
        ),
        (
            "ib_mlx5_log.c:179  Transport retry count exceeded on mlx5_1:1/RoCE (synd 0x15 "
            "vend 0x81 hw_synd 0/0)"
        ),
    ),
    misses=(
        (
            "[1714000000.12] [n0042:20133:0]  ucp_context.c:1550 UCX  WARN  device 'mlx5_3' is "
            "not available"
        ),
    ),
    outranks=(
        "mpi-process-crashed",
        "mpirun-rank-crashed",
        "launcher-exit-code",
    ),
)

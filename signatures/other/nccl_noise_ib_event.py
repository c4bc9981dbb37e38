"""Events that the fabric's management causes.

Client re-registration, a new subnet manager, changed LIDs or partition keys, a port that became
active: NCCL prints each as a warning and goes on. Mismatched devices between two hosts are
noted the same way.

A port error or a fatal event is another matter (nccl-ib-port-event).
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-ib-event",
    category="healthy",
    kind=Kind.NOISE,
    title="Ordinary events of an InfiniBand fabric",
    when=log(
        (
            r"NET/IB ?: .*Got (?:non-fatal )?async (?:error )?event ?: ?(?:client "
            r"reregistration|port active|LID change|P_Key change|SM change|path migrat\w+|send "
            r"queue drained|last WQE reached)"
        ),
        r"NET/IB ?: There are mismatched physical devices between local",
    ),
    means="The fabric's manager was at work; connections go on.",
    confidence=0.9,
    matches=(
        (
            "node3:99:140 [1] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : "
            "client reregistration"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:120 NCCL WARN NET/IB : mlx5_3:1 Got "
            "non-fatal async event: port active(9)"
        ),
        (
            "node3:99:140 [1] NCCL INFO NET/IB : There are mismatched physical devices between "
            "local (mlx5_0) and remote (mlx5_1)."
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] transport/net_ib.cc:120 NCCL WARN NET/IB : mlx5_3:1 Got "
            "non-fatal async event: port error(10)"
        ),
    ),
)
